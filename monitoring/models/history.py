"""LagSample: a flow's figures at one step of time. Feed: what was last read of each flow."""

from __future__ import annotations

from django.db import models

from mirrors.models import Flow
from monitoring.domain.lag import RESOLUTIONS


class LagSample(models.Model):
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
    # Those of which nobody knew what they owe: `offset_lag` is a lower bound then.
    unknown_partitions = models.PositiveIntegerField(default=0)
    # Of heartbeats: from being written to being seen on the target, and how old the newest was.
    latency_ms = models.BigIntegerField(null=True)
    heartbeat_age_ms = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("at",)
        constraints = (
            # Two collectors at once do no harm: the second finds the step taken.
            models.UniqueConstraint(fields=["flow", "resolution", "at"], name="one_sample_a_step"),
        )
        indexes = (models.Index(fields=["resolution", "at"], name="samples_by_age"),)

    def __str__(self) -> str:
        return f"flow {self.flow_id} at {self.at}"


class Feed(models.Model):
    """What the collector last read of a flow, from which rates are computed, and since when it is
    old.

    `moved_at` is when records were last seen to be copied or nothing was left to copy, with the
    lag of that moment: a lag that grew since then, without a record copied, is a flow that stands.
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
