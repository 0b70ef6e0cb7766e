"""RunLifecycle: what the rows of all runs have in common.

A person requests a run, one worker takes it, shows signs of life, and ends it once. Every change of
state is a compare-and-set (`transitions.claim`). Failover runs, failbacks, comparisons, drills and
connection tests are runs; `services.run_lifecycle` has the operations that they share.
"""

from __future__ import annotations

from django.db import models


class RunLifecycle(models.Model):
    """`reason` says why the run is in its state. A run without `ended_at` is open."""

    reason = models.TextField(blank=True)
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.ended_at is None
