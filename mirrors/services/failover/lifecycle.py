"""Runs of failovers: ask for one, take a simulation, say how far it is, abort and end one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.models import FailoverRun, FailoverStep, Flow, claim
from mirrors.models.failover import OPEN_RUNS, FailoverKind, FailoverState, StepState
from mirrors.services import run_lifecycle
from mirrors.services.run_lifecycle import WORKER

MOST_GROUPS = 500
# A worker says something every second or so; the longest it is mute is one call's deadline, 20 s.
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
    """Write the row that a worker takes; the caller enqueues on commit. One at a time a flow."""
    chosen = sorted(set(groups))
    if len(chosen) > MOST_GROUPS:
        sentence = f"{len(chosen)} groups are more than the {MOST_GROUPS} that one run takes."
        raise InvalidSettings({"groups": [sentence]})
    with transaction.atomic():
        run = run_lifecycle.request(
            FailoverRun,
            refusal=f"A failover run of {flow.name} runs already. Wait for its end, or abort it.",
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
    """One that waits for a worker ends at once; one that runs ends as soon as all is undone."""
    now = timezone.now()
    rows = FailoverRun.objects.filter(pk=run.pk)
    states = {"queued": FailoverState.QUEUED, "aborted": FailoverState.ABORTED}
    if not run_lifecycle.ask_to_abort(rows, **states, who=who, why=why, swept_at=now):
        # One that rests is taken up again, to undo what it did.
        rests = rows.filter(ended_at=None, state=FailoverState.WAITING)
        changes = {"waits_for": "", "holder": "", "next_at": now, "abort_asked_by": who}
        reason = why or f"Aborted by {who}."
        claim(rests, state=FailoverState.RUNNING, reason=reason, who=who, changes=changes)
    run.refresh_from_db()
    return run


def take_run(*, run_id: int) -> FailoverRun | None:
    """The simulation for its one worker, or None when another had it."""
    now = timezone.now()
    taken = run_lifecycle.take(
        _simulations().filter(pk=run_id, state=FailoverState.QUEUED),
        state=FailoverState.RUNNING,
        reason="A worker asks both clusters.",
        started_at=now,
        seen_at=now,
    )
    if not taken:
        return None
    rows = FailoverRun.objects.select_related("flow__source", "flow__target", "flow__runner")
    return rows.get(pk=run_id)


def note_progress(*, run: FailoverRun, progress: dict[str, Any]) -> str:
    """Say that the worker lives and how far it is; why it must stop, or nothing."""
    rows = FailoverRun.objects.filter(pk=run.pk, state=FailoverState.RUNNING)
    return run_lifecycle.heartbeat(rows, progress=progress)


def begin_step(*, run: FailoverRun, name: str) -> None:
    run.steps.filter(name=name).update(state=StepState.RUNNING, started_at=timezone.now())


def end_step(*, run: FailoverRun, name: str, state: str, reason: str) -> None:
    run.steps.filter(name=name).update(state=state, reason=reason, ended_at=timezone.now())


def end_run(
    *, run_id: int, state: str, reason: str, swept: bool, who: str = WORKER, **found: Any
) -> bool:
    """End an open run, its open steps too; False when others had ended it."""
    now = timezone.now()
    known = {"swept_at": now if swept else None, **found}
    rows = FailoverRun.objects.filter(pk=run_id, state__in=OPEN_RUNS)
    with transaction.atomic():
        if not run_lifecycle.end(rows, state=state, reason=reason, who=who, **known):
            return False
        steps = FailoverStep.objects.filter(run=run_id)
        steps.filter(state=StepState.RUNNING).update(
            state=StepState.FAILED, reason=reason, ended_at=now
        )
        steps.filter(state=StepState.PENDING).update(
            state=StepState.SKIPPED, reason="The run ended before."
        )
    return True


def waiting_runs() -> list[int]:
    """Simulations that no worker took: sent again, since their message may be lost."""
    queued = _simulations().filter(state=FailoverState.QUEUED)
    return run_lifecycle.unclaimed(queued, now=timezone.now())


def end_lost_runs() -> int:
    """Simulations whose worker is no more are failed, so that nobody waits for ever."""
    running = _simulations().filter(state=FailoverState.RUNNING)
    lost = run_lifecycle.lost(running, now=timezone.now(), after=LOST_AFTER)
    reason = (
        f"The worker that ran it was lost: nothing was heard of it for "
        f"{int(LOST_AFTER.total_seconds())} s. Nothing real was touched. Simulate again."
    )
    return sum(
        end_run(
            run_id=run_id,
            state=FailoverState.FAILED,
            reason=reason,
            swept=False,
            who=run_lifecycle.RECONCILER,
        )
        for run_id in lost.values_list("pk", flat=True)
    )


def _simulations() -> QuerySet[FailoverRun]:
    return FailoverRun.objects.filter(kind=FailoverKind.SIMULATION)
