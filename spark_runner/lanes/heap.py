"""Memory that a worker frees it needs again at once: the C library is told to hold on to some.

glibc gives a large block back to the system as soon as it is freed, and each new one comes as pages
of zeros: where small batches are merged, a third of all processor time went there.
"""

from __future__ import annotations

import ctypes
import functools

# mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_HELD = {_MMAP_THRESHOLD: 4 << 20, _TRIM_THRESHOLD: 8 << 20, _TOP_PAD: 1 << 20}


@functools.cache
def hold_on() -> bool:
    """Keep up to 8 MB of freed memory; False where the C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, size) for name, size in _HELD.items())
