"""What a process has loaded is taken out of sight of the collector of garbage."""

from __future__ import annotations

import gc
from importlib import import_module

from django.conf import settings


def settle() -> None:
    """Load every view; then nothing of it is walked again.

    A full collection looks at all that lives. With everything that is loaded it takes 200 ms, and
    whichever page it falls into waits for it.
    """
    import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()
