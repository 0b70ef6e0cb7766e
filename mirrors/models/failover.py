"""FailoverRun: one simulated or real run, with plan and result. FailoverStep: one thing it did."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from mirrors.domain.failover.left_behind import LeftBehind as Decision
from mirrors.models.flows import Flow
from mirrors.models.run_lifecycle import RunLifecycle


class FailoverKind(models.TextChoices):
    SIMULATION = "simulation"
    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"


class FailoverState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


OPEN_RUNS = (FailoverState.QUEUED, FailoverState.RUNNING, FailoverState.WAITING)


class WaitsFor(models.TextChoices):
    """What a waiting run waits for; each is something that a person does."""

    APPROVAL = "approval"
    PAUSE = "pause"
    PERSON = "person"
    TROUBLE = "trouble"


class Verification(models.TextChoices):
    """How far a run verified where groups resume; `domain.failover.verification` says when."""

    VERIFIED = "verified"
    PARTLY_VERIFIED = "partly_verified"
    NOT_VERIFIED = "not_verified"
    NONE = "none"


class FailoverRun(RunLifecycle):
    """The row first, then the queue. `mark` is in the names of the groups that it throws away.

    `seen_at` is when its worker was last heard of; `swept_at` when none of its groups was left.
    An execution is worked on in turns: `holder` is the turn that has it, `next_at` when the next
    one is due. `hooks` are the flow's settings for its outside steps as they were when it was
    asked for.

    `lacking` are the missing rights that a simulation found, null where it did not ask.
    `counted` are the sums of what was counted on the source afterwards, beside what `result`
    predicted, and `counted_rows` what they are sums of; `count_due_at` is when that is tried next,
    null when nothing is left to count.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="failovers")
    kind = models.CharField(max_length=16, choices=FailoverKind)
    state = models.CharField(max_length=16, choices=FailoverState, default=FailoverState.QUEUED)
    verification = models.CharField(max_length=16, choices=Verification, default=Verification.NONE)
    verification_reason = models.TextField(blank=True, default="")
    since = models.DateTimeField(default=timezone.now)
    groups = models.JSONField(default=list)
    why = models.CharField(max_length=500, blank=True)
    mark = models.CharField(max_length=16)
    abort_asked_by = models.CharField(max_length=150, blank=True)
    progress = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    result = models.JSONField(null=True)
    started_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    swept_at = models.DateTimeField(null=True)
    simulation = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="executions"
    )
    hooks = models.JSONField(default=dict)
    holder = models.CharField(max_length=32, blank=True, default="")
    next_at = models.DateTimeField(null=True)
    waits_for = models.CharField(max_length=16, choices=WaitsFor, blank=True, default="")
    approved_by = models.CharField(max_length=150, blank=True, default="")
    pause_asked_by = models.CharField(max_length=150, blank=True, default="")
    lacking = models.JSONField(null=True)
    counted = models.JSONField(null=True)
    counted_rows = models.JSONField(default=dict)
    counted_at = models.DateTimeField(null=True)
    count_due_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow"], condition=Q(ended_at__isnull=True), name="one_open_run_per_flow"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class StepState(models.TextChoices):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class FailoverStep(models.Model):
    """One step of a run; `reason` says what came of it.

    Of an execution: `acting_at` is written before its act and `acted_at` after, so that whoever
    takes it up knows whether there may be an effect. `result` holds its numbers, and what it takes
    to undo it. `command` is what a person types instead.
    """

    run = models.ForeignKey(FailoverRun, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=32)
    does = models.CharField(max_length=200)
    state = models.CharField(max_length=16, choices=StepState, default=StepState.PENDING)
    reason = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    acting_at = models.DateTimeField(null=True)
    acted_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)
    command = models.TextField(blank=True, default="")
    confirmed_by = models.CharField(max_length=150, blank=True, default="")
    undone_at = models.DateTimeField(null=True)
    undo_tries = models.PositiveSmallIntegerField(default=0)
    undo_reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("number",)
        constraints = (
            models.UniqueConstraint(fields=["run", "number"], name="one_step_per_number"),
        )

    def __str__(self) -> str:
        return f"{self.name} of run {self.run_id}"


# Stands for all partitions of the topic.
WHOLE_TOPIC = -1


class LeftBehind(models.Model):
    """It holds until somebody withdraws it; the row stays, since runs name the decision.

    `partition` is `WHOLE_TOPIC` where the decision is about all partitions of the topic.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="left_behind")
    topic = models.CharField(max_length=255)
    partition = models.IntegerField(default=WHOLE_TOPIC)
    reason = models.CharField(max_length=500)
    decided_by = models.CharField(max_length=150)
    decided_at = models.DateTimeField()
    withdrawn_by = models.CharField(max_length=150, blank=True, default="")
    withdrawn_at = models.DateTimeField(null=True)
    withdrawn_why = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"],
                condition=Q(withdrawn_at__isnull=True),
                name="one_decision_to_leave_behind",
            ),
        )

    def __str__(self) -> str:
        return self.topic if self.is_whole else f"{self.topic}-{self.partition}"

    @property
    def is_whole(self) -> bool:
        return self.partition == WHOLE_TOPIC

    @property
    def decision(self) -> Decision:
        """As the rules take it."""
        return Decision(
            topic=self.topic,
            partition=None if self.is_whole else self.partition,
            reason=self.reason,
            decided_by=self.decided_by,
            decided_at=round(self.decided_at.timestamp() * 1000),
        )
