"""Rows of sync tasks: runs (DutyRun), heartbeats, the plan of the target, the standby's backup."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mirrors.domain.states.sync import PLAN, PlanState, SyncRunState, state_of_run
from mirrors.domain.sync.tasks import TAKEOVER_CHECK
from mirrors.models.access.grants import Owned
from mirrors.models.base import StateField
from mirrors.models.flows import Flow


class DutyRun(Owned):
    """One run of a sync task, or a roll-up of equal runs.

    `slot` is the second of its scheduled start: a slot is taken once, however many schedulers run.
    A frequent task has one row for equal runs of an hour: `runs` and `totals` count since `since`,
    the other columns are the last run's.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="duty_runs")
    duty = models.CharField(max_length=32)
    slot = models.BigIntegerField()
    since = models.DateTimeField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    runs = models.PositiveIntegerField(default=1)
    counts = models.JSONField(default=dict)
    totals = models.JSONField(default=dict)
    reasons = models.JSONField(default=list)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ("-slot", "-id")
        constraints = (
            models.UniqueConstraint(fields=["flow", "duty", "slot"], name="one_run_per_slot"),
            models.UniqueConstraint(
                fields=["flow", "duty"], condition=Q(ended_at=None), name="one_open_run_per_duty"
            ),
        )

    def __str__(self) -> str:
        return f"{self.duty} of flow {self.flow_id} at {self.slot}"

    @property
    def state(self) -> SyncRunState:
        # A worker takes a slot and begins; only the check before a takeover is queued. Its request
        # stores one time in both columns, and the claim sets the second.
        return state_of_run(
            is_claimed=self.duty != TAKEOVER_CHECK or self.started_at != self.since,
            has_ended=self.ended_at is not None,
            error=self.error,
            failed_operations=self.counts.get("failed", 0),
        )


class HeartbeatState(Owned):
    """Heartbeats of one flow: the last run, where they are written, how they arrive.

    `seen_at` is the timestamp of the newest heartbeat on the target.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="heartbeat")
    slot = models.BigIntegerField(default=0)
    # Slots since the last check in which no heartbeat was written.
    missed = models.PositiveIntegerField(default=0, db_default=0)
    # "source", or "target" where the flow may only read the source.
    place = models.CharField(max_length=8, default="source")
    place_since = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    error = models.TextField(blank=True)
    written_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    latency_ms = models.BigIntegerField(null=True)
    clock_skew_ms = models.BigIntegerField(null=True)
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"heartbeats of flow {self.flow_id}"


class FlowPlan(Owned):
    """What a flow would change on its target, as last read; `digest` identifies these changes."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="plan")
    state = StateField(PLAN, PlanState.ASKED)
    reason = models.TextField(blank=True)
    digest = models.CharField(max_length=64, blank=True)
    changes = models.JSONField(default=list)
    left_out = models.JSONField(default=list)
    # Codes of the sentences in `left_out`; null in plans stored before codes existed.
    codes = models.JSONField(null=True)
    asked_by = models.CharField(max_length=150, blank=True)
    since = models.DateTimeField()
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"plan of flow {self.flow_id}"


class StandbyNote(Owned):
    """Digests, by kind, of what the backup topic with the id `topic_id` holds."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="standby_note")
    topic_id = models.CharField(max_length=64, blank=True)
    digests = models.JSONField(default=dict)
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"backup state of flow {self.flow_id}"
