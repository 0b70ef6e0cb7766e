"""Flow: an ordered pair of clusters and its settings; its jobs and changes of its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Concat
from django.utils import timezone

from mirrors.domain.access.grants import Reach, Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.account.partition import Owed
from mirrors.domain.account.totals import Total, total
from mirrors.domain.flows import speed_limits
from mirrors.domain.flows.slice_packing import PackingVerdict
from mirrors.domain.flows.speed_limits import FlowSpeed
from mirrors.domain.formatting import OLD_AFTER
from mirrors.domain.settings.changes import redacted_value
from mirrors.domain.settings.flow_control import without_old_schedule
from mirrors.domain.specs import FlowSpec
from mirrors.domain.states.flows import (
    DESIRED,
    JOB,
    OBSERVED,
    DesiredState,
    JobState,
    ObservedState,
)
from mirrors.domain.transforms.rules import (
    DEAD_LETTER_TOPIC,
    TRANSFORMS,
    dead_letter_topic,
    parse_rules,
)
from mirrors.models.access.grants import FlowLabel, Owned
from mirrors.models.base import StateField
from mirrors.models.clusters import Cluster, pair_subject
from mirrors.models.runners import Runner


def epoch_ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


# `Flow.name` in a query.
NAME = Concat("source__alias", Value("->"), "target__alias")


class Flow(Owned):
    """People write `desired_state`; only the reconciler writes `observed_state`.

    `generation` counts edits. A job reports the one that it runs, so pages show a pending edit.
    """

    source = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="flows_out")
    target = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="flows_in")
    runner = models.ForeignKey(Runner, on_delete=models.PROTECT, related_name="flows")
    properties = models.JSONField(default=dict, blank=True)
    desired_state = StateField(DESIRED, DesiredState.STOPPED)
    observed_state = StateField(OBSERVED, ObservedState.DRAFT)
    reason = models.TextField(blank=True)
    since = models.DateTimeField(default=timezone.now)
    generation = models.PositiveIntegerField(default=1)
    # The edit up to which it is known from which offset the rules on records apply (RuleStart).
    rules_known = models.PositiveIntegerField(default=0)
    # Scheduled comparisons up to this time have been requested.
    compared_since = models.DateTimeField(null=True)
    # Raised when a person requests a restart: one restart per value.
    restarts = models.PositiveIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)  # failures in a row
    # A person's start resets the failure count: failures of earlier jobs no longer count.
    forgiven_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    # A person started it although another program writes the same remote topics.
    accepts_other_writers = models.BooleanField(default=False)
    warnings = models.JSONField(default=list, blank=True)
    # What limits its speed (`domain.flows.speed_limits.FlowSpeed`); empty before a first report.
    speed = models.JSONField(default=dict, blank=True)
    # How evenly bytes are distributed over its slices (`domain.flows.slice_packing`);
    # null before a first report.
    packing = models.JSONField(null=True)
    as_of = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(fields=["source", "target"], name="one_flow_per_pair"),
            models.CheckConstraint(condition=~Q(source=F("target")), name="source_is_not_target"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        found = Q(pk__in=where.flows)
        if where.labels:
            labelled = FlowLabel._base_manager.filter(name__in=where.labels).values("flow")
            found |= Q(pk__in=labelled)
        if where.clusters:
            source, target = Q(source__in=where.clusters), Q(target__in=where.clusters)
            found |= source | target if right is Right.VIEW else source & target
        return found

    @property
    def access_subject(self) -> Subject:
        return Subject(
            name=self.name,
            flow=self.pk,
            clusters=(self.source_id, self.target_id),
            labels=frozenset(self.labels.values_list("name", flat=True)),
        )

    @property
    def opposite_subject(self) -> Subject:
        """The flow of the other direction, or where one would be made with the same labels."""
        rows = Flow._base_manager.select_related("source", "target")
        known = rows.filter(source=self.target_id, target=self.source_id).first()
        if known is not None:
            return known.access_subject
        pair = pair_subject(self.target, self.source)
        return dataclasses.replace(pair, labels=self.access_subject.labels)

    @property
    def start_refusal(self) -> str:
        """Why its last start was refused (`start_check.Code`); empty when it was not."""
        if self.observed_state != ObservedState.FAILED:
            return ""
        return self.jobs.order_by("-id").values_list("refusal", flat=True).first() or ""

    @property
    def dead_letter_topic(self) -> str | None:
        """Where records are for which a rule failed; None if no rule writes there."""
        rules = parse_rules(self.properties.get(TRANSFORMS, ""))
        named = self.properties.get(DEAD_LETTER_TOPIC)
        return dead_letter_topic(rules, named, self.source.alias)

    def current_speed(self, now: datetime) -> FlowSpeed | None:
        """What limits it now; None while it does not run or its figures are old."""
        return FlowSpeed.from_dict(self.speed) if self.copies(now) else None

    def current_packing(self, now: datetime) -> PackingVerdict | None:
        """How evenly its slices are packed; None while it does not run or its figures are old."""
        return PackingVerdict.from_dict(self.packing or {}) if self.copies(now) else None

    def copies(self, now: datetime) -> bool:
        """Whether it runs, by figures that are not old."""
        copies = self.observed_state in (ObservedState.RUNNING, ObservedState.DEGRADED)
        return copies and self.as_of is not None and now - self.as_of <= OLD_AFTER

    @property
    def spec(self) -> FlowSpec:
        """Raises InvalidSettings for settings that only an older version accepted.

        The schedule of its starts is not checked: a start does that.
        """
        return FlowSpec.build(
            source=self.source.spec,
            target=self.target.spec,
            properties=without_old_schedule(self.properties),
        )


def rules_of(flow: Flow) -> list[dict[str, Any]]:
    """The flow's rules, each with its number from 1, its topics and all expressions."""
    rules = parse_rules(flow.properties.get(TRANSFORMS, ""))
    return [
        {"number": number, **asdict(rule), "modules": dict(rule.modules)}
        for number, rule in enumerate(rules, 1)
    ]


def speed_sentences(flow: Flow, speed: FlowSpeed) -> dict[str, str]:
    """What limits the flow, and what to change."""
    aliases = {"source": flow.source.alias, "target": flow.target.alias}
    return {
        "state": speed_limits.state(speed, **aliases),
        "advice": speed_limits.advice(speed, **aliases),
    }


class Job(Owned):
    """One run of a flow in a runner; a constraint allows one open job per flow."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="jobs")
    # Null after its runner was deleted.
    runner = models.ForeignKey(Runner, on_delete=models.SET_NULL, null=True, related_name="jobs")
    generation = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    restarts = models.PositiveIntegerField(default=0)
    state = StateField(JOB, JobState.STARTING)
    reason = models.TextField(blank=True)
    error = models.TextField(blank=True)
    # The code of a refused first start.
    refusal = models.CharField(max_length=32, blank=True, default="")
    since = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)
    as_of = models.DateTimeField(null=True)
    records = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    # One `domain.flows.lanes.LaneFigure` for each lane and reason.
    lanes = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow"], condition=Q(ended_at__isnull=True), name="one_open_job_per_flow"
            ),
        )

    def __str__(self) -> str:
        return f"job {self.pk} of flow {self.flow_id}"


class FlowMove(Owned):
    """A flow that moves to another runner of its pool; one at a time in a pool.

    `moved_at`: when the flow was given its new runner; before, that runner's process starts.
    """

    parent = "flow"

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="moves")
    pool = models.CharField(max_length=63)
    # Names of runners.
    before = models.CharField(max_length=100)
    to = models.CharField(max_length=100)
    reason = models.TextField()
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    moved_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # Whether it copies on the new runner; null while it is under way.
    succeeded = models.BooleanField(null=True)
    outcome = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["pool"], condition=Q(ended_at__isnull=True), name="one_open_move_per_pool"
            ),
        )

    def __str__(self) -> str:
        return f"move of flow {self.flow_id} to {self.to}"


class FlowTopic(Owned):
    """One source topic as the flow sees it; a skipped one has the rule that excludes it."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="topics")
    topic = models.CharField(max_length=255)
    # Null: not replicated. The remote name may be longer than Kafka allows.
    remote_topic = models.TextField(null=True)  # noqa: DJ001
    state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    partitions = models.PositiveIntegerField()
    # Why it is not replicated, for programs (`job_files.TopicStatus.code`).
    code = models.CharField(max_length=32, blank=True, default="")
    # Its topic id on the source at the last plan.
    source_topic_id = models.CharField(max_length=64, blank=True, default="")
    # The id of its remote topic at the last plan.
    remote_topic_id = models.CharField(max_length=64, blank=True, default="")
    # Null while any partition is unknown; `owed` sums those that are known.
    offset_lag = models.BigIntegerField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)
    unknown_lags = models.PositiveIntegerField(default=0, db_default=0)
    # The rest of `domain.account.totals.Total`.
    owed = models.BigIntegerField(default=0)
    least = models.BigIntegerField(default=0)
    unknown_partitions = models.PositiveIntegerField(default=0)
    certainty = models.CharField(max_length=16, default="counted")
    states = models.JSONField(default=dict)
    account_state = models.CharField(max_length=24, default="in_step")
    # Replicated over all jobs; bytes as sent to the target. Of the last job: what it has reported.
    records = models.BigIntegerField(default=0, db_default=0)
    bytes = models.BigIntegerField(default=0, db_default=0)
    job = models.BigIntegerField(null=True)
    job_records = models.BigIntegerField(default=0, db_default=0)
    job_bytes = models.BigIntegerField(default=0, db_default=0)
    # The counts that its last sample contains, and the step of that sample.
    sampled_records = models.BigIntegerField(default=0, db_default=0)
    sampled_bytes = models.BigIntegerField(default=0, db_default=0)
    sampled_at = models.DateTimeField(null=True)
    # Means of the last five minutes, which monitoring computes from the topic's samples; null while
    # a minute of them is unknown.
    records_per_second = models.FloatField(null=True)
    bytes_per_second = models.FloatField(null=True)
    # As in `FlowPartition`, of all its partitions.
    latency = models.JSONField(null=True)
    observed_at = models.DateTimeField(null=True)
    as_of = models.DateTimeField()

    class Meta:
        ordering = ("topic",)
        constraints = (models.UniqueConstraint(fields=["flow", "topic"], name="one_row_per_topic"),)

    def __str__(self) -> str:
        return self.topic

    def add_to(self, before: FlowTopic | None) -> None:
        """Add what the job has reported since the stored row.

        Each job counts from 0. A scan of the source (no job) reports no counts.
        """
        if before is None:
            self.records, self.bytes = self.job_records, self.job_bytes
            return
        if self.job is None:
            self.job, records, size = before.job, 0, 0
            self.job_records, self.job_bytes = before.job_records, before.job_bytes
        elif before.job == self.job:
            records = max(0, self.job_records - before.job_records)
            size = max(0, self.job_bytes - before.job_bytes)
        else:
            records, size = self.job_records, self.job_bytes
        self.records, self.bytes = before.records + records, before.bytes + size

    @property
    def total(self) -> Total:
        """The sum of what its partitions owe."""
        return Total(
            records=self.owed,
            least=self.least,
            unknown=self.unknown_partitions,
            certainty=self.certainty,  # type: ignore[arg-type]
            observed_at=epoch_ms(self.observed_at),
            time_lag_ms=self.time_lag_ms,
            partitions=sum(self.states.values()),
            states=self.states,
            unknown_topics=(self.topic,) if self.unknown_partitions else (),
            unknown_lags=self.unknown_lags,
        )


class FlowPartition(Owned):
    """One replicated partition; `position` is the next upstream offset to copy."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="partitions")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    remote_topic = models.CharField(max_length=255)
    state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    position = models.BigIntegerField(null=True)
    source_end = models.BigIntegerField(null=True)
    source_stable_end = models.BigIntegerField(null=True)
    # First offset that the target should hold, in the generation that the source has now.
    source_first = models.BigIntegerField(null=True)
    # Owed records (`domain.account.partition.Owed`): null when unknown.
    offset_lag = models.BigIntegerField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)
    certainty = models.CharField(max_length=16, default="at_most")
    account_state = models.CharField(max_length=24, default="in_step")
    # Why it is stopped, for programs (`job_files.PartitionStatus.code`).
    code = models.CharField(max_length=32, blank=True, default="")
    # A lower bound of the owed records, and the range that proves it (`CountedRange`).
    least = models.BigIntegerField(default=0)
    counted = models.JSONField(null=True)
    lane = models.CharField(max_length=16, blank=True)
    # At-least-once delivery: duplicate records on the target; null where they are not counted.
    repeats = models.BigIntegerField(null=True)
    # Records before the position in the dead-letter topic; null where not reported. Since when.
    dead_letters = models.BigIntegerField(null=True)
    dead_letter_at = models.DateTimeField(null=True)
    why = models.TextField(blank=True, default="")  # why its last batch took the lane `repack`
    # Replicated by the last job; bytes as sent to the target.
    records = models.BigIntegerField(default=0, db_default=0)
    bytes = models.BigIntegerField(default=0, db_default=0)
    # `domain.flows.latency.Latency` of the last minute at most; null if nothing was committed.
    latency = models.JSONField(null=True)
    as_of = models.DateTimeField()

    class Meta:
        ordering = (
            "topic",
            "partition",
        )
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"], name="one_row_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def total(self) -> Total:
        """What it owes, as a sum of one part."""
        return total(
            [
                Owed(
                    topic=self.topic,
                    partition=self.partition,
                    state=self.account_state,  # type: ignore[arg-type]
                    records=self.offset_lag,
                    certainty=self.certainty,  # type: ignore[arg-type]
                    observed_at=epoch_ms(self.as_of) or None,
                    time_lag_ms=self.time_lag_ms,
                    least=self.least,
                )
            ]
        )

    @property
    def counted_range(self) -> CountedRange | None:
        return CountedRange(*self.counted) if self.counted else None


class SettingChange(Owned):
    """`before` is null where the key was not set, `after` where the edit removed it."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="setting_changes")
    generation = models.PositiveIntegerField()
    when = models.DateTimeField(default=timezone.now)
    who = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    before = models.TextField(null=True)  # noqa: DJ001 (null: it was not set)
    after = models.TextField(null=True)  # noqa: DJ001 (null: it is not set)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["flow", "-id"], name="setting_changes_of"),)

    def __str__(self) -> str:
        return f"{self.key} of flow {self.flow_id}"


class RuleWaiver(Owned):
    """A request of an admin to drop a flow's rule that a second person approves its failovers."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="waivers")
    requested_by = models.CharField(max_length=150)
    why = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.CharField(max_length=150, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    approved = models.BooleanField(null=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"waiver {self.pk}"


def record_edit(flow: Flow, changes: Iterable[Mapping[str, str | None]], *, who: str) -> None:
    """Store what an edit changed; `flow` is its state after the edit."""
    now = timezone.now()
    SettingChange.objects.bulk_create(
        SettingChange(
            flow=flow,
            generation=flow.generation,
            when=now,
            who=who[:150],
            key=(key := str(change["key"]))[:255],
            before=redacted_value(key, change["before"]),
            after=redacted_value(key, change["after"]),
        )
        for change in changes
    )
