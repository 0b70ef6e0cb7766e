"""What the rows of all runs have in common: a person asks for one, a worker does it, it ends.

A run is queued, taken by one worker, heard of while it is worked on, and ended once. Every change
of its state is a compare-and-set (`transitions.claim`). Failover runs, failbacks, comparisons,
drills and connection tests are such runs; `services.run_lifecycle` does what they share.
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
