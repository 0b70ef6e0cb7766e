"""A flow's plan: a worker computes and stores it, a person reads it and has it applied."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.domain.topics.sync_plan import SyncPlan
from mirrors.models import Flow, FlowPlan
from mirrors.models.audit.transitions import note
from mirrors.models.base import move
from mirrors.models.sync import PlanState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.errors import Conflict
from mirrors.services.topics import acl_previews, configs

DEADLINE_S = 40.0
# An action that is open for longer has lost its worker.
LOST_AFTER = timedelta(seconds=90)
_OPEN = (PlanState.ASKED, PlanState.APPLYING)


def compute_plan(context: SyncTaskContext) -> Outcome:
    """Sync task `plan`: compute it regularly, so that pages show a current one."""
    plan = configs.find_differences(context)
    _store(context, plan, PlanState.READY, "")
    return Outcome(counts={"changes": len(plan.changes())}, reasons=plan.left_out)


def request_plan(*, flow: Flow, now: datetime) -> FlowPlan:
    """Have a worker plan now; the caller enqueues `look_at_plan`. A running one continues."""
    with transaction.atomic():
        row, made = _locked(flow.pk, now)
        if made or not _busy(row, now):
            move(row, PlanState.ASKED)
            row.since, row.reason = now, "A worker reads both clusters."
            row.save(update_fields=["state", "since", "reason"])
    return row


def plan_on_request(*, flow_id: int, now: datetime) -> None:
    """In a worker, for a person's request; a refusal becomes the plan's reason."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    row = FlowPlan.objects.filter(flow=flow_id).first()
    if flow is None or row is None or row.state == PlanState.APPLYING:
        return
    try:
        context = _context(flow, now)
        _store(context, configs.find_differences(context), PlanState.READY, "")
    except UnderstudyError as error:
        _fail(flow_id, error.message, now, applying=False)


def request_apply(*, flow: Flow, digest: str, who: str, now: datetime) -> FlowPlan:
    """Take the plan that a person has read; the caller enqueues `apply_plan`."""
    with transaction.atomic():
        row = FlowPlan.objects.select_for_update().filter(flow=flow).first()
        if row is None or row.as_of is None:
            raise Conflict(f"{flow.name} has no plan yet. Request one first.")
        if _busy(row, now) and row.state == PlanState.APPLYING:
            raise Conflict(f"The plan of {flow.name} is being applied. Wait for the outcome.")
        if row.digest != digest:
            raise Conflict(
                f"The plan of {flow.name} is outdated: its clusters or settings changed since. "
                "Read the new one and apply that.",
                code="stale",
            )
        if not row.changes:
            raise Conflict(f"The plan of {flow.name} has no changes.")
        move(row, PlanState.APPLYING)
        row.since, row.asked_by = now, who[:150]
        row.reason = f"A worker is applying {len(row.changes)} changes, requested by {who}."
        row.save(update_fields=["state", "since", "asked_by", "reason"])
        why = f"{len(row.changes)} changes of {digest[:12]}."
        note(flow, what="plan applied", who=who, why=why)
        acl_previews.record_read(flow=flow, plan=row, who=who, now=now)
    return row


def apply_now(*, flow_id: int, now: datetime) -> None:
    """In a worker: plan again, and apply only if the plan equals the one that was read."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    row = FlowPlan.objects.filter(flow=flow_id, state=PlanState.APPLYING).first()
    if flow is None or row is None:
        return
    try:
        context = _context(flow, now)
        fresh = configs.find_differences(context)
        if fresh.digest != row.digest:
            reason = (
                "Not applied: the clusters changed after the plan was read. This is the new plan."
            )
            _store(context, fresh, PlanState.STALE, reason)
            return
        failed = configs.apply(context, fresh)
    except UnderstudyError as error:
        _fail(flow_id, f"Not applied. {error.message}", now, applying=True)
        return
    if failed:
        reason = f"{len(failed)} of {len(row.changes)} changes failed. {' '.join(failed[:5])}"
        _fail(flow_id, reason, now, applying=True)
        return
    done = SyncPlan(left_out=fresh.left_out, codes=fresh.codes)
    reason = f"{len(row.changes)} changes were applied, requested by {row.asked_by}."
    _store(context, done, PlanState.APPLIED, reason)


def _context(flow: Flow, now: datetime) -> SyncTaskContext:
    return SyncTaskContext(
        flow_id=flow.pk, spec=flow.spec, now=milliseconds(now), deadline_s=DEADLINE_S / 2
    )


def _busy(row: FlowPlan, now: datetime) -> bool:
    return row.state in _OPEN and now - row.since < LOST_AFTER


def _locked(flow_id: int, now: datetime) -> tuple[FlowPlan, bool]:
    """The plan of a flow under its lock, and whether it is new."""
    rows = FlowPlan.objects.select_for_update(of=("self",))
    return rows.get_or_create(flow_id=flow_id, defaults={"since": now})


def _has_order(row: FlowPlan, now: datetime, *, applying: bool) -> bool:
    """Whether a worker may store its result: another order may have replaced its own.

    A reader never ends an apply that began meanwhile, unless that has lost its worker.
    """
    if applying:
        return row.state == PlanState.APPLYING
    return row.state != PlanState.APPLYING or not _busy(row, now)


def _fail(flow_id: int, reason: str, now: datetime, *, applying: bool) -> None:
    with transaction.atomic():
        row, _ = _locked(flow_id, now)
        if _has_order(row, now, applying=applying):
            move(row, PlanState.FAILED)
            row.since, row.reason = now, reason
            row.save(update_fields=["state", "since", "reason"])


def _store(context: SyncTaskContext, plan: SyncPlan, state: PlanState, reason: str) -> None:
    """Store the plan, unless another order replaced this worker's."""
    now = moment(context.now)
    with transaction.atomic():
        row, _ = _locked(context.flow_id, now)
        if not _has_order(row, now, applying=state != PlanState.READY):
            return
        # A plan without a change keeps who applied the one before.
        if (state, row.state, row.digest) != (PlanState.READY, PlanState.APPLIED, plan.digest):
            move(row, state)
            row.since, row.reason = now, reason
        row.digest, row.as_of = plan.digest, now
        row.changes = [change.to_dict() for change in plan.changes()]
        row.left_out, row.codes = list(plan.left_out), dict(plan.codes)
        row.save()
