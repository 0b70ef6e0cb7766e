"""Comparison of both clusters of a flow, its parts (one per partition) and its findings."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q

from mirrors.domain.states.runs import COMPARISON, ComparisonState
from mirrors.models.access.grants import Owned
from mirrors.models.base import Reading, StateField, WorkerRun
from mirrors.models.flows import Flow
from mirrors.models.runners import Runner

OPEN_COMPARISONS = (ComparisonState.QUEUED, ComparisonState.RUNNING)


class Verdict(models.TextChoices):
    """same: all agrees. partly: all that was read agrees. differs: something differs."""

    SAME = "same"
    PARTLY = "partly"
    DIFFERS = "differs"


class Engine(models.TextChoices):
    """Who reads the records: the flow's runner in its Spark, or a worker."""

    SPARK = "spark"
    WORKER = "worker"


class Comparison(WorkerRun, Owned):
    """One comparison: stored first, then queued. Workers run it in slices of some seconds.

    - `engine`: empty until records are read; `engine_reason`: why a worker reads them.
    - `request` counts the requests to the runner; `answered_at`: when the runner was last asked or
      last answered.
    - `rests`: waits between two slices. `turn` counts the slices, so that one worker takes each.
    - `records`: how many of the last offsets of each partition are read; null means all.
    """

    task = "mirrors.tasks.run_comparison"
    # Of the last claim: milliseconds without a worker before it.
    rested_ms: int = 0

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="comparisons")
    state = StateField(COMPARISON, ComparisonState.QUEUED)
    verdict = models.CharField(max_length=16, choices=Verdict, blank=True)
    topics = models.JSONField(default=list)
    content = models.BooleanField(default=True)
    records = models.BigIntegerField(null=True)
    seconds = models.PositiveIntegerField()
    megabytes = models.PositiveIntegerField()
    # Continues where the last comparison of each partition ended.
    is_incremental = models.BooleanField(default=False)
    # Of both clusters together, for a runner; null: no limit.
    megabytes_per_second = models.PositiveIntegerField(null=True)
    engine = models.CharField(max_length=16, choices=Engine, blank=True)
    engine_reason = models.TextField(blank=True)
    request = models.PositiveIntegerField(default=0)
    answered_at = models.DateTimeField(null=True)
    abort_asked_by = models.CharField(max_length=150, blank=True)
    progress = models.JSONField(default=dict)
    summary = models.JSONField(null=True)
    spent_ms = models.BigIntegerField(default=0)
    read_bytes = models.BigIntegerField(default=0)
    turn = models.PositiveIntegerField(default=0)
    rests = models.BooleanField(default=False)
    lost = models.PositiveSmallIntegerField(default=0)
    started_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow"],
                condition=Q(ended_at__isnull=True),
                name="one_open_comparison_per_flow",
            ),
        )

    def __str__(self) -> str:
        return f"comparison {self.pk}"


class PartVerdict(models.TextChoices):
    WAITING = "waiting"
    SAME = "same"
    DIFFERS = "differs"
    PARTLY = "partly"
    UNREAD = "unread"


class ComparisonPart(Owned):
    """One compared partition.

    Source offsets from `source_first` up to, without, `next` are compared. It is done when `next`
    reaches `source_end`, or when `reason` says why it ends earlier.
    """

    parent = "comparison"

    comparison = models.ForeignKey(Comparison, on_delete=models.CASCADE, related_name="parts")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    remote_topic = models.CharField(max_length=255)
    verdict = models.CharField(max_length=16, choices=PartVerdict, default=PartVerdict.WAITING)
    reason = models.TextField(blank=True)
    compacted = models.BooleanField(default=False)
    # The number of the rule through which the source's records go first; null without one.
    rule = models.PositiveSmallIntegerField(null=True)
    keeps_time = models.BooleanField(default=True)
    source_first = models.BigIntegerField(null=True)
    source_end = models.BigIntegerField(null=True)
    target_first = models.BigIntegerField(null=True)
    target_end = models.BigIntegerField(null=True)
    next = models.BigIntegerField(null=True)
    source_records = models.BigIntegerField(default=0)
    target_records = models.BigIntegerField(default=0)
    differences = models.PositiveIntegerField(default=0)
    explained = models.PositiveIntegerField(default=0)
    unread = models.BigIntegerField(default=0)
    source_digest = models.CharField(max_length=32, blank=True)
    target_digest = models.CharField(max_length=32, blank=True)

    class Meta:
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["comparison", "topic", "partition"], name="one_part_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ComparisonFinding(Owned):
    """One difference, or a remark (`weight` is then note)."""

    parent = "comparison"

    comparison = models.ForeignKey(Comparison, on_delete=models.CASCADE, related_name="findings")
    about = models.CharField(max_length=16)
    kind = models.CharField(max_length=16)
    weight = models.CharField(max_length=16)
    name = models.TextField()
    partition = models.PositiveIntegerField(null=True)
    source_offset = models.BigIntegerField(null=True)
    target_offset = models.BigIntegerField(null=True)
    sentence = models.TextField()

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return self.sentence[:80]


class ConflictReport(Reading, Owned):
    """Keys that producers wrote on both sides of a flow and its opposite flow.

    - `window_seconds`: the longest time between two records. `period_seconds`: how far back the
      records of both sides are read.
    - `keys` counts all conflicting keys, `differing` those that are stored and have different
      values on both sides at the end. Null until the report has ended, and if it failed.
    - `limits`: sentences about partitions that were not read completely.
    """

    lost_after = timedelta(minutes=15)

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="conflict_reports")
    runner = models.ForeignKey(Runner, null=True, on_delete=models.SET_NULL, related_name="+")
    window_seconds = models.PositiveIntegerField()
    period_seconds = models.PositiveIntegerField()
    topics = models.PositiveIntegerField(default=0)
    # When the ends of both sides were read, and when the runner got the request.
    as_of = models.DateTimeField(null=True)
    handed_at = models.DateTimeField(null=True)
    keys = models.BigIntegerField(null=True)
    differing = models.PositiveIntegerField(null=True)
    records = models.BigIntegerField(default=0)
    copies = models.BigIntegerField(default=0)
    limits = models.JSONField(default=list)
    sentence = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"conflict report {self.pk}"


class ConflictKey(Owned):
    """A conflicting key. `text` is content of records: only for those who may read records.

    `source_…`, `target_…`: the records of the newest conflict. `…_last_…`: the last record of the
    key in each log, copies included. Values are digests.
    """

    parent = "report"

    report = models.ForeignKey(ConflictReport, on_delete=models.CASCADE, related_name="found")
    topic = models.CharField(max_length=255)
    digest = models.CharField(max_length=32)
    text = models.TextField(blank=True)
    conflicts = models.BigIntegerField()
    agrees = models.BooleanField()
    source_partition = models.PositiveIntegerField()
    source_offset = models.BigIntegerField()
    source_at = models.DateTimeField(null=True)
    source_value = models.CharField(max_length=32)
    target_partition = models.PositiveIntegerField()
    target_offset = models.BigIntegerField()
    target_at = models.DateTimeField(null=True)
    target_value = models.CharField(max_length=32)
    source_last_offset = models.BigIntegerField()
    source_last_value = models.CharField(max_length=32)
    target_last_offset = models.BigIntegerField()
    target_last_value = models.CharField(max_length=32)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.topic}: {self.digest}"
