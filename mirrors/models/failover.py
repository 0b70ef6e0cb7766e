"""FailoverRun: one simulated or real run, with plan and result. FailoverStep: one of its steps."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mirrors.domain.failover.left_behind import LeftBehind as Decision
from mirrors.domain.states.runs import FAILOVER_RUN, FAILOVER_STEP, FailoverState, StepState
from mirrors.models.access.grants import Owned
from mirrors.models.base import StateField, WorkerRun
from mirrors.models.flows import Flow


class FailoverKind(models.TextChoices):
    SIMULATION = "simulation"
    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"


OPEN_RUNS = (FailoverState.QUEUED, FailoverState.RUNNING, FailoverState.WAITING)


class WaitsFor(models.TextChoices):
    """What a waiting run waits for; each is an action of a person."""

    APPROVAL = "approval"
    PAUSE = "pause"
    PERSON = "person"
    TROUBLE = "trouble"


class Verification(models.TextChoices):
    """How much of the resume offsets a run verified, by `domain.failover.verification_level`."""

    VERIFIED = "verified"
    PARTLY_VERIFIED = "partly_verified"
    NOT_VERIFIED = "not_verified"
    NONE = "none"


class FailoverRun(WorkerRun, Owned):
    """One run: stored first, then queued. `mark` is in the names of its temporary groups.

    - `seen_at`: last sign of life of its worker. `swept_at`: when its last group was deleted.
    - An execution has a lease: `holder` is the worker's, `next_at` is when the next one is due.
    - `hooks`: the flow's settings of its hooks at the time of the request.
    - `lacking`: rights that a simulation found missing; null when it did not check.
    - `failback`: the failback that requested this simulation or its switchover.
      `switch_refused`: why its switchover was not begun.
    - `counted`: sums counted on the source after the run, to compare with `result`'s prediction.
      `counted_rows` are their addends. `count_due_at`: the next attempt, null when all is counted.
    """

    task = "mirrors.tasks.run_failover"

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="failovers")
    kind = models.CharField(max_length=16, choices=FailoverKind)
    state = StateField(FAILOVER_RUN, FailoverState.QUEUED)
    verification = models.CharField(max_length=16, choices=Verification, default=Verification.NONE)
    verification_reason = models.TextField(blank=True, default="")
    groups = models.JSONField(default=list)
    # `domain.failover.scope.Scope` of one application; empty for everything.
    scope = models.JSONField(default=dict, blank=True)
    mark = models.CharField(max_length=16)
    abort_asked_by = models.CharField(max_length=150, blank=True)
    progress = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    result = models.JSONField(null=True)
    started_at = models.DateTimeField(null=True)
    swept_at = models.DateTimeField(null=True)
    simulation = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="executions"
    )
    failback = models.ForeignKey(
        "mirrors.Failback", on_delete=models.SET_NULL, null=True, related_name="switches"
    )
    switch_refused = models.TextField(blank=True, default="", db_default="")
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


class Hook(models.Model):
    """An address that failovers call, with references to its secrets. Admins make hooks.

    `headers`: comma-separated `Name=reference`. `secret`: the reference that signs the calls.
    """

    name = models.CharField(max_length=64, unique=True)
    url = models.CharField(max_length=2000)
    headers = models.CharField(max_length=2000, blank=True, default="")
    secret = models.CharField(max_length=500, blank=True, default="")
    changed_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class FailoverStep(Owned):
    """One step of a run; `reason` is its outcome.

    - `acting_at` is written before the effect, `acted_at` after it. A worker that takes over reads
      from them whether there may be an effect.
    - `result` holds the step's numbers and what an undo needs.
    - `command` is what a person can type instead.
    """

    parent = "run"

    run = models.ForeignKey(FailoverRun, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=32)
    does = models.CharField(max_length=200)
    state = StateField(FAILOVER_STEP, StepState.PENDING)
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


# Means all partitions of the topic.
WHOLE_TOPIC = -1


class LeftBehind(Owned):
    """A decision not to fail over a topic or partition. Withdrawn rows stay: runs refer to them.

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
        """The decision as `domain.failover.left_behind` uses it."""
        return Decision(
            topic=self.topic,
            partition=None if self.is_whole else self.partition,
            reason=self.reason,
            decided_by=self.decided_by,
            decided_at=round(self.decided_at.timestamp() * 1000),
        )
