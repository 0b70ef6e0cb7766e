"""Results of the sweeps of source clusters: offsets of each partition, forecast of each flow."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from mirrors.models import Cluster, Flow
from mirrors.models.access.grants import Owned


class ClusterSweep(Owned):
    """The last sweep of a source cluster. A failed one keeps all figures and sets `stale_since`."""

    parent = "cluster"

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="sweep")
    due_at = models.DateTimeField(default=timezone.now)
    claimed_until = models.DateTimeField(null=True)
    as_of = models.DateTimeField(null=True)
    stale_since = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    failures = models.PositiveIntegerField(default=0)
    partitions = models.PositiveIntegerField(default=0)
    unanswered = models.PositiveIntegerField(default=0)
    took_ms = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("cluster_id",)

    def __str__(self) -> str:
        return f"sweep of cluster {self.cluster_id}"


class PartitionRange(Owned):
    """Offsets of a source partition, updated when its earliest offset moves.

    `steps` are the times at which the earliest offset moved, each with the new offset.
    `held_since` is since when an open transaction holds back the last stable offset (LSO).
    """

    parent = "cluster"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="ranges")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    earliest = models.BigIntegerField()
    end = models.BigIntegerField()
    stable_end = models.BigIntegerField()
    steps = models.JSONField(default=list)
    held_since = models.DateTimeField(null=True)
    as_of = models.DateTimeField()

    class Meta:
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["cluster", "topic", "partition"], name="one_range_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class FlowOutlook(Owned):
    """Forecast of a flow from the last sweep of its source; needs no report of a runner.

    `risks` are the partitions that will lose data first; `tracks` are recent positions.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="outlook")
    as_of = models.DateTimeField()
    offset_lag = models.BigIntegerField(null=True)
    moved_at = models.DateTimeField(null=True)
    lag_when_moved = models.BigIntegerField(null=True)
    reached = models.BigIntegerField(default=0)
    loses_at = models.DateTimeField(null=True)
    at_risk = models.PositiveIntegerField(default=0)
    risks = models.JSONField(default=list)
    tracks = models.JSONField(default=list)
    held_since = models.DateTimeField(null=True)
    held_records = models.BigIntegerField(default=0)
    held = models.JSONField(default=list)

    class Meta:
        ordering = ("flow_id",)

    def __str__(self) -> str:
        return f"outlook of flow {self.flow_id}"
