"""What sweeps of source clusters saw: both ends of each partition, and what follows for flows."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from mirrors.models import Cluster, Flow


class ClusterSweep(models.Model):
    """One row a source cluster. A sweep that failed leaves all figures, and says since when."""

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


class PartitionRange(models.Model):
    """What one partition of a source holds, written again when its beginning moved.

    `steps` are the moments at which its first offset moved and where to, `held_since` is since
    when an open transaction keeps readers from going on.
    """

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


class FlowOutlook(models.Model):
    """What the last sweep of its source says of a flow, whether a runner reports on it or not.

    `risks` are the partitions that will lose data first; `tracks` how positions moved lately.
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
