"""How much memory the demo's processes hold, what they share counted once."""

from __future__ import annotations

import contextlib

import psutil

from controlplane.demo.brand import Brand


def resident_bytes(brand: Brand) -> int:
    """Proportional set sizes of this process and of the brand's; resident where there are none."""
    total = 0
    for process in [psutil.Process(), *brand.living()]:
        with contextlib.suppress(psutil.Error, OSError):
            full = process.memory_full_info()
            total += int(getattr(full, "pss", 0) or full.rss)
    return total
