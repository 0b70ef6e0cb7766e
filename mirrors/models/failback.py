"""Failback: divergence points, runs, and orphans (records that only the old primary has)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from mirrors.domain.states.findings import ORPHANS, OrphanState
from mirrors.domain.states.runs import FAILBACK, FailbackState
from mirrors.models.access.grants import Owned
from mirrors.models.base import Decision, StateField, WorkerRun
from mirrors.models.flows import Flow

# Orphans without a decision that was carried out.
UNSETTLED = (OrphanState.LISTED, OrphanState.DECIDED, OrphanState.FAILED)


class Divergence(Owned):
    """The divergence point of one partition, as the topic on the standby cluster stores it."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="divergences")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    remote_topic = models.CharField(max_length=255)
    position = models.BigIntegerField()
    downstream = models.BigIntegerField()
    end = models.BigIntegerField()
    how = models.CharField(max_length=8)
    source_cluster = models.TextField(blank=True)
    source_topic_id = models.CharField(max_length=64, blank=True)
    target_cluster = models.TextField(blank=True)
    target_topic_id = models.CharField(max_length=64, blank=True)
    resets = models.PositiveIntegerField(default=0)
    mark = models.CharField(max_length=64)
    kept_at = models.DateTimeField()

    class Meta:
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"], name="one_divergence_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Failback(WorkerRun, Owned):
    """One failback of a flow that failed over.

    `flow` is the stopped one, `reverse` the one that replicates back. `starts` has the start
    offset of each partition with its reason, `groups` the resume offset of each consumer group.

    With a `scope` it only lists and resolves the orphans of one application, which `failover`
    moved. Then the flow runs, and stops while decisions are carried out: `flow_was` is its desired
    state before that, empty while it is not stopped for this.
    """

    task = "mirrors.tasks.run_failback"

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="failbacks")
    reverse = models.ForeignKey(
        Flow, on_delete=models.SET_NULL, null=True, related_name="brings_back"
    )
    failover = models.ForeignKey(
        "mirrors.FailoverRun", on_delete=models.SET_NULL, null=True, related_name="orphan_lists"
    )
    scope = models.JSONField(default=dict, blank=True)
    flow_was = models.CharField(max_length=16, blank=True, default="", db_default="")
    state = StateField(FAILBACK, FailbackState.QUEUED)
    starts = models.JSONField(default=list)
    changes = models.JSONField(default=list)
    groups = models.JSONField(default=list)
    groups_at = models.DateTimeField(null=True)
    listed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow"],
                condition=Q(ended_at__isnull=True),
                name="one_open_failback_per_flow",
            ),
        )

    def __str__(self) -> str:
        return f"failback {self.pk}"


class OrphanStretch(Decision, Owned):
    """Offsets [first, end) of one partition that were not replicated, and the decision about them.

    - `records`: records in the range that belong to clients; `kept` of these are stored in chunks.
    - `gone`: offsets that the old primary deleted before they were replicated.
    - `settled_to`: the next offset to replay, export or drop.
    """

    parent = "failback"

    failback = models.ForeignKey(Failback, on_delete=models.CASCADE, related_name="orphans")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    remote_topic = models.CharField(max_length=255)
    first = models.BigIntegerField()
    end = models.BigIntegerField()
    gone = models.BigIntegerField(default=0)
    records = models.BigIntegerField(default=0)
    # "at_most" where part of the range was unreadable, so offsets are counted instead.
    certainty = models.CharField(max_length=16, default="counted")
    kept = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    settled_to = models.BigIntegerField()
    replayed = models.BigIntegerField(default=0)
    state = StateField(ORPHANS, OrphanState.LISTED)
    reason = models.TextField(blank=True)
    since = models.DateTimeField(default=timezone.now)
    decision = models.CharField(max_length=16, blank=True)
    decided_why = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["failback", "topic", "partition"], name="one_stretch_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OrphanChunk(Owned):
    """Consecutive orphaned records: compressed JSON lines."""

    parent = "stretch"

    stretch = models.ForeignKey(OrphanStretch, on_delete=models.CASCADE, related_name="chunks")
    first = models.BigIntegerField()
    count = models.PositiveIntegerField()
    body = models.BinaryField()

    class Meta:
        ordering = ("stretch", "first")
        constraints = (models.UniqueConstraint(fields=["stretch", "first"], name="one_chunk_at"),)

    def __str__(self) -> str:
        return f"{self.count} records from {self.first}"
