"""Deletes old samples in small batches, so that no lock is held for long."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Model

# SQLite limits the keys of one statement.
_BATCH = 500
_ROWS = 2_000
_ROUNDS = 5


def delete_before(model: type[Model], resolution: int, before: datetime) -> int:
    """Delete samples of one resolution; returns their number. The rest follows in later calls."""
    removed = 0
    old = model._default_manager.filter(resolution=resolution, at__lt=before).order_by("at")
    for _ in range(_ROUNDS):
        keys = list(old.values_list("pk", flat=True)[:_ROWS])
        for start in range(0, len(keys), _BATCH):
            chunk = keys[start : start + _BATCH]
            removed += model._default_manager.filter(pk__in=chunk).delete()[0]
        if len(keys) < _ROWS:
            break
    return removed
