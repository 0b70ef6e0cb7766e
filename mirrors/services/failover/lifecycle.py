"""Life cycle of failover runs: request, take, progress, abort, end. A simulation is one too."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER, WORKER
from mirrors.domain.errors import InvalidSettings
from mirrors.models import FailoverRun, FailoverStep, Flow, claim
from mirrors.models.base import move_all
from mirrors.models.failover import OPEN_RUNS, FailoverKind, FailoverState, StepState
from mirrors.services import run_lifecycle

MOST_GROUPS = 500
# A worker reports about every second; its longest silence is the deadline of one call, 20 s.
LOST_AFTER = timedelta(seconds=35)


def request_run(
    *,
    flow: Flow,
    kind: str,
    groups: Iterable[str] = (),
    why: str = "",
    who: str,
    steps: Sequence[tuple[str, str]],
    **more: Any,
) -> FailoverRun:
    """Store the run that a worker takes. One open run per flow."""
    chosen = sorted(set(groups))
    if len(chosen) > MOST_GROUPS:
        sentence = f"{len(chosen)} groups are more than the limit of {MOST_GROUPS} per run."
        raise InvalidSettings({"groups": [sentence]})
    with transaction.atomic():
        run = run_lifecycle.request(
            FailoverRun,
            refusal=f"A failover run of {flow.name} is already running. Wait until it "
            "ends, or abort it.",
            who=who,
            noted=why or f"For {flow.name}.",
            flow=flow,
            kind=kind,
            groups=chosen,
            mark=uuid.uuid4().hex[:12],
            **{"why": why, **more},
        )
        FailoverStep.objects.bulk_create(
            FailoverStep(run=run, number=number, name=name, does=does)
            for number, (name, does) in enumerate(steps, start=1)
        )
    return run


def abort_run(*, run: FailoverRun, who: str, why: str = "") -> FailoverRun:
    """Abort a run: a queued one ends at once, a running one after it has undone its effects."""
    now = timezone.now()
    rows = FailoverRun.objects.filter(pk=run.pk)
    if not run_lifecycle.ask_to_abort(rows, who=who, why=why, swept_at=now):
        # A run that waits for a person continues, to undo its effects.
        rests = rows.filter(ended_at=None, state=FailoverState.WAITING)
        changes = {"waits_for": "", "holder": "", "next_at": now, "abort_asked_by": who}
        reason = why or f"Aborted by {who}."
        claim(rests, state=FailoverState.RUNNING, reason=reason, who=who, changes=changes)
        run_lifecycle.enqueue(run)
    run.refresh_from_db()
    return run


def take_run(*, run_id: int) -> FailoverRun | None:
    """Take a queued simulation; None when another worker has it."""
    now = timezone.now()
    taken = run_lifecycle.claim_queued(
        _simulations().filter(pk=run_id, state=FailoverState.QUEUED),
        state=FailoverState.RUNNING,
        reason="A worker reads both clusters.",
        started_at=now,
        seen_at=now,
    )
    if not taken:
        return None
    rows = FailoverRun.objects.select_related("flow__source", "flow__target", "flow__runner")
    return rows.get(pk=run_id)


def is_simulation(*, run_id: int) -> bool:
    return _simulations().filter(pk=run_id).exists()


def note_progress(*, run: FailoverRun, progress: dict[str, Any]) -> str:
    """Heartbeat with progress; returns why the worker must stop, or an empty string."""
    rows = FailoverRun.objects.filter(pk=run.pk, state=FailoverState.RUNNING)
    return run_lifecycle.heartbeat(rows, progress=progress)


def begin_step(*, run: FailoverRun, name: str) -> None:
    rows = run.steps.filter(name=name)
    move_all(rows, state=StepState.RUNNING, started_at=timezone.now())


def end_step(*, run: FailoverRun, name: str, state: str, reason: str) -> None:
    rows = run.steps.filter(name=name)
    move_all(rows, state=state, reason=reason, ended_at=timezone.now())


def end_run(
    *, run_id: int, state: str, reason: str, swept: bool, who: str = WORKER, **found: Any
) -> bool:
    """End an open run with its open steps; False when it has ended already."""
    now = timezone.now()
    known = {"swept_at": now if swept else None, **found}
    rows = FailoverRun.objects.filter(pk=run_id, state__in=OPEN_RUNS)
    with transaction.atomic():
        if not run_lifecycle.end(rows, state=state, reason=reason, who=who, **known):
            return False
        steps = FailoverStep.objects.filter(run=run_id)
        move_all(steps, state=StepState.FAILED, reason=reason, ended_at=now)
        pending = steps.filter(state=StepState.PENDING)
        move_all(pending, state=StepState.SKIPPED, reason="The run ended earlier.")
    return True


def waiting_runs() -> list[int]:
    """Simulations that no worker took, to be queued again: their message may be lost."""
    queued = _simulations().filter(state=FailoverState.QUEUED)
    return run_lifecycle.unclaimed_runs(queued, now=timezone.now())


def end_lost_runs() -> int:
    """Fail simulations whose worker sends no heartbeats, so that nobody waits forever."""
    running = _simulations().filter(state=FailoverState.RUNNING)
    lost = run_lifecycle.lost_runs(running, now=timezone.now(), after=LOST_AFTER)
    reason = (
        f"The worker that ran it was lost: it sent no heartbeat for "
        f"{int(LOST_AFTER.total_seconds())} s. No real group or topic was changed. Simulate again."
    )
    return sum(
        end_run(
            run_id=run_id,
            state=FailoverState.FAILED,
            reason=reason,
            swept=False,
            who=RECONCILER,
        )
        for run_id in lost.values_list("pk", flat=True)
    )


def _simulations() -> QuerySet[FailoverRun]:
    return FailoverRun.objects.filter(kind=FailoverKind.SIMULATION)
