"""The lease of a run: a worker takes it, renews it, releases it; another takes over a lost one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.state_machine import RunFacts, StepFacts
from mirrors.domain.failover.runbook.steps import BY_NAME, KINDS, Step
from mirrors.models import FailoverRun, FailoverStep, claim
from mirrors.models.base import move
from mirrors.models.failover import FailoverState, StepState, WaitsFor
from mirrors.services.clock import milliseconds
from mirrors.services.failover.lifecycle import LOST_AFTER
from mirrors.services.run_lifecycle import ASK_AGAIN_AFTER

# A message may be slightly early; a much earlier one is a duplicate, and is dropped.
_EARLY = timedelta(seconds=0.5)


class LeaseLost(UnderstudyError):
    """Another worker took the run over, because this one sent no heartbeat in time."""

    code = "overtaken"


def executions() -> QuerySet[FailoverRun]:
    return FailoverRun.objects.filter(kind__in=KINDS)


def due_runs(*, now: datetime) -> list[int]:
    """Runs that wait for a worker: their message or their worker may be lost."""
    late = now - ASK_AGAIN_AFTER
    queued = Q(state=FailoverState.QUEUED, since__lt=late)
    idle = Q(state=FailoverState.RUNNING, holder="", next_at__lt=late)
    dead = Q(state=FailoverState.RUNNING, seen_at__lt=now - LOST_AFTER)
    return list(executions().filter(queued | idle | dead).values_list("pk", flat=True))


def take(*, run_id: int) -> FailoverRun | None:
    """The run with its lease, or None when another worker has it or nothing is due."""
    now, token = timezone.now(), uuid.uuid4().hex
    one = executions().filter(pk=run_id)
    claim(
        one.filter(state=FailoverState.QUEUED),
        state=FailoverState.RUNNING,
        reason="A worker is running its steps.",
        who=WORKER,
        changes={"started_at": now},
    )
    due = Q(next_at=None) | Q(next_at__lte=now + _EARLY)
    free = (Q(holder="") & due) | Q(seen_at__lt=now - LOST_AFTER)
    if not one.filter(free, state=FailoverState.RUNNING).update(
        holder=token, seen_at=now, next_at=None
    ):
        return None
    joined = FailoverRun.objects.select_related(
        "flow__source", "flow__target", "flow__runner", "simulation"
    )
    return joined.defer("simulation__result").get(pk=run_id)


def renew(*, run: FailoverRun) -> None:
    """Renew the lease: before each act and between requests."""
    mine = FailoverRun.objects.filter(
        pk=run.pk, holder=run.holder, state=FailoverState.RUNNING, ended_at=None
    )
    if not mine.update(seen_at=timezone.now()):
        raise LeaseLost("Another worker took over the run.")


def release(*, run: FailoverRun, again_s: float | None) -> None:
    """Release the run. After an error the next sweep takes it at once."""
    next_at = timezone.now() + timedelta(seconds=again_s or 0)
    FailoverRun.objects.filter(pk=run.pk, holder=run.holder).update(holder="", next_at=next_at)


def facts_of(*, run: FailoverRun, steps: Iterable[FailoverStep]) -> RunFacts:
    return RunFacts(
        steps=[step_facts(step) for step in steps],
        abort_asked=bool(run.abort_asked_by),
        pause_asked=bool(run.pause_asked_by),
    )


def step_facts(row: FailoverStep) -> StepFacts:
    return StepFacts(
        name=row.name,
        state=row.state,  # type: ignore[arg-type]
        attempt=row.attempt,
        begun=row.acting_at is not None and BY_NAME[row.name].changes,
        due_at=None if row.due_at is None else milliseconds(row.due_at),
        undone=row.undone_at is not None,
        undo_tries=row.undo_tries,
    )


def begin(*, row: FailoverStep, step: Step, now: datetime) -> None:
    """Once per step: its time limit starts here."""
    if row.state == StepState.PENDING:
        move(row, StepState.RUNNING)
        row.started_at, row.ended_at = row.started_at or now, None
    if row.due_at is None:
        row.due_at = now + timedelta(seconds=step.limit_s)
    row.save(update_fields=["state", "started_at", "ended_at", "due_at"])


def record_action_start(*, row: FailoverStep) -> None:
    """Stored before the act: the next worker knows that it may have had an effect."""
    row.attempt += 1
    row.acting_at = timezone.now()
    row.save(update_fields=["attempt", "acting_at"])


def record_action_end(*, row: FailoverStep) -> None:
    row.acted_at = timezone.now()
    row.save(update_fields=["acted_at"])


def await_person(*, run: FailoverRun, why: str, step: str) -> None:
    """Wait for a person; the run's reason says for what."""
    row = run.steps.filter(name=step).first()
    said = row.reason if row is not None else ""
    title = BY_NAME[step].title
    words = {
        WaitsFor.PAUSE: f"Paused by {run.pause_asked_by} before “{title}” was done.",
        WaitsFor.PERSON: f"{title}: {said}",
        WaitsFor.TROUBLE: f"{title}: {said}",
    }[WaitsFor(why)]
    if why == WaitsFor.TROUBLE and run.abort_asked_by and row is not None:
        words = f"{title} could not be undone: {row.undo_reason} Resume tries again."
    claim(
        FailoverRun.objects.filter(pk=run.pk, holder=run.holder, state=FailoverState.RUNNING),
        state=FailoverState.WAITING,
        reason=words,
        who=WORKER,
        changes={"waits_for": why},
    )
