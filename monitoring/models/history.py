"""LagSample: a flow's figures at one time step. Feed: what was last read of each flow.

MetricsPush: how the last push of metrics over OTLP went.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models

from mirrors.models import Flow
from mirrors.models.access.grants import Owned
from monitoring.domain.history import RESOLUTIONS


class LagSample(Owned):
    """One flow, one step. Coarser rows hold the worst lag and the mean rates of finer ones."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="samples", db_index=False)
    resolution = models.PositiveSmallIntegerField(
        choices=[(one.seconds, f"{one.seconds} s") for one in RESOLUTIONS]
    )
    at = models.DateTimeField()
    offset_lag = models.BigIntegerField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)
    records_per_second = models.FloatField(null=True)
    bytes_per_second = models.FloatField(null=True)
    out_of_sync = models.PositiveIntegerField()
    # Partitions with an unknown lag; if there are any, `offset_lag` is a lower bound.
    unknown_partitions = models.PositiveIntegerField(default=0)
    # Of heartbeats: time from the source to the target, and age of the newest on the target.
    latency_ms = models.BigIntegerField(null=True)
    heartbeat_age_ms = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("at",)
        constraints = (
            # Of two collectors at the same step, the second writes nothing.
            models.UniqueConstraint(fields=["flow", "resolution", "at"], name="one_sample_a_step"),
        )
        indexes = (models.Index(fields=["resolution", "at"], name="samples_by_age"),)

    def __str__(self) -> str:
        return f"flow {self.flow_id} at {self.at}"


class Feed(Owned):
    """The figures that the collector last read of a flow, to compute rates and staleness.

    `moved_at` is when a record was last copied, or nothing was left to copy, and `lag_when_moved`
    is the lag at that time. A lag that grew since then means a stalled flow.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="feed")
    as_of = models.DateTimeField(null=True)
    job = models.BigIntegerField(null=True)
    records = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    stale_since = models.DateTimeField(null=True)
    moved_at = models.DateTimeField(null=True)
    lag_when_moved = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("flow_id",)

    def __str__(self) -> str:
        return f"feed of flow {self.flow_id}"


class MetricsPush(models.Model):
    """The push of metrics over OTLP: one row, while it is wanted.

    `due_at` is when the next one may begin. `error`: why the last one failed, empty if it did not.
    `points`: values that the receiver accepted in it.
    """

    ONE: ClassVar = 1

    due_at = models.DateTimeField()
    interval_s = models.FloatField(default=60)
    tried_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    points = models.PositiveIntegerField(default=0)
    took_ms = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return "push of metrics"

    def state_at(self, now: datetime) -> tuple[str, str]:
        """running, failed, or missing (no worker tries it any longer), and why."""
        # A receiver may ask to wait that long.
        patience = timedelta(seconds=2 * self.interval_s + 30)
        if now > max(self.due_at, self.tried_at or self.due_at) + patience:
            return "missing", "No worker `watch` pushes metrics now."
        return ("failed", self.error) if self.error else ("running", "")
