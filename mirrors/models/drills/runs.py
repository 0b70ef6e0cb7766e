"""Objectives of a flow, its drills (scheduled simulations), their runs, and certificates."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from mirrors.domain.drills.objectives import Objectives, result_text
from mirrors.domain.states.runs import DRILL, DrillState
from mirrors.models.access.grants import Owned
from mirrors.models.base import RunLifecycle, StateField
from mirrors.models.failover import FailoverRun, Verification
from mirrors.models.flows import Flow


class FlowObjectives(Owned):
    """What the flow is to achieve; null: no such objective."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="objectives")
    rpo_seconds = models.PositiveBigIntegerField(null=True)
    rpo_records = models.PositiveBigIntegerField(null=True)
    rto_seconds = models.PositiveBigIntegerField(null=True)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"objectives of flow {self.flow_id}"

    @property
    def spec(self) -> Objectives:
        return Objectives(
            rpo_seconds=self.rpo_seconds,
            rpo_records=self.rpo_records,
            rto_seconds=self.rto_seconds,
        )


class Drill(Owned):
    """A schedule of simulations. Times up to `since` are taken, or precede the schedule."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="drills")
    schedule = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=64, default="UTC")
    groups = models.JSONField(default=list)
    enabled = models.BooleanField(default=True)
    since = models.DateTimeField(default=timezone.now)
    changed_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"drill {self.pk} of {self.flow}"


# A drill in one of these states says what it verified on the target.
ENDED_WELL = (DrillState.PASSED, DrillState.NO_OBJECTIVES)
# Of all groups: a drill of some of them proves nothing of the others.
PROVES = Q(state__in=ENDED_WELL, groups=[])


class DrillRun(RunLifecycle, Owned):
    """One drill. The row outlives flow, schedule and simulation: it is evidence.

    `slot` is the scheduled time (ms since 1970), null for a drill that a person started. `figures`
    are the flow's at the start; `objectives` are those in force then.
    """

    drill = models.ForeignKey(Drill, on_delete=models.SET_NULL, null=True, related_name="runs")
    flow = models.ForeignKey(Flow, on_delete=models.SET_NULL, null=True, related_name="drill_runs")
    flow_name = models.CharField(max_length=255)
    slot = models.BigIntegerField(null=True)
    schedule = models.CharField(max_length=200, blank=True)
    groups = models.JSONField(default=list)
    state = StateField(DRILL, DrillState.QUEUED)
    verification = models.CharField(max_length=16, choices=Verification, default=Verification.NONE)
    verification_reason = models.TextField(blank=True, default="")
    run = models.OneToOneField(
        FailoverRun, on_delete=models.SET_NULL, null=True, related_name="drill_run"
    )
    objectives = models.JSONField(default=dict)
    figures = models.JSONField(default=dict)
    measured = models.JSONField(null=True)
    verdict = models.JSONField(null=True)
    # Why there is no certificate yet; empty when there is one, or when nothing is to be certified.
    uncertified = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=["drill", "slot"], name="one_drill_run_per_slot"),
            models.UniqueConstraint(
                fields=["flow"], condition=Q(ended_at__isnull=True), name="one_open_drill_per_flow"
            ),
        )
        indexes = (models.Index(fields=["flow", "-ended_at"], name="drills_of_flow"),)

    def __str__(self) -> str:
        return f"drill of {self.flow_name}"

    @property
    def label(self) -> str:
        """Its state as pages and certificates say it."""
        return result_text(self.state, self.verification)


class SigningKey(models.Model):
    """A public key that certificates were signed with. The private key is not in the database."""

    fingerprint = models.CharField(max_length=64, unique=True)
    public_key = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    first_used_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.fingerprint[:16]


class Certificate(Owned):
    """`text` is the signed document, byte for byte; `number` is random, so nobody can guess it."""

    number = models.CharField(max_length=32, unique=True)
    drill_run = models.OneToOneField(
        DrillRun, on_delete=models.SET_NULL, null=True, related_name="certificate"
    )
    failover = models.ForeignKey(
        FailoverRun, on_delete=models.SET_NULL, null=True, related_name="certificates"
    )
    # The certificate to which this one adds the count that was made afterwards.
    supplements = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="supplemented_by"
    )
    flow = models.ForeignKey(
        Flow, on_delete=models.SET_NULL, null=True, related_name="certificates"
    )
    flow_name = models.CharField(max_length=255)
    passed = models.BooleanField()
    text = models.TextField()
    issued_at = models.DateTimeField()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.number
