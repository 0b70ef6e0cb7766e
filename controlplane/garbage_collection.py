"""Makes garbage collection cheap for processes that build large results."""

from __future__ import annotations

import gc
from importlib import import_module

from django.conf import settings

# Python's own are 700, 10 and 10: with those, a failover plan of 100,000 partitions spends half of
# its time in collections that find nothing. Most objects end without them, by their reference
# count; these are for cycles.
THRESHOLDS = (50_000, 20, 10)
_OF_PYTHON = (700, 10, 10)


def collect_less_often() -> None:
    """Exclude the objects of start-up from collections, and begin them later.

    For workers, which start again after some tasks. A scrape of the web leaves many cycles: there
    memory would grow.
    """
    _freeze()
    gc.set_threshold(*THRESHOLDS)


def collect_less_often_at_start() -> None:
    """Collect less often while modules are loaded: a sixth of that time finds no garbage."""
    gc.set_threshold(*THRESHOLDS)


def freeze() -> None:
    """Load every view, then freeze all objects; collections are as often as Python's again.

    A full collection visits all live objects. Without `gc.freeze` it takes 200 ms, during which
    the current request waits.
    """
    import_module(settings.ROOT_URLCONF)
    _freeze()
    gc.set_threshold(*_OF_PYTHON)


def _freeze() -> None:
    gc.collect()
    gc.freeze()
