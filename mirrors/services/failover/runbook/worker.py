"""Works on one failover run: next step, its act, its outcome, until it has to wait.

- A worker that takes a run over, after a crash too, starts from the run's rows.
- A worker that lost its lease, because it sent no sign of life, detects that before its next act.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.utils import timezone

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.runbook.state_machine import (
    AwaitPerson,
    EndRun,
    ExecuteStep,
    Outcome,
    judge,
    next_action,
)
from mirrors.domain.failover.runbook.steps import BY_NAME, Step
from mirrors.models import FailoverRun, FailoverStep, Flow
from mirrors.models.base import move
from mirrors.services.clock import milliseconds, moment
from mirrors.services.failover.runbook import lease, result
from mirrors.services.failover.runbook.context import Context
from mirrors.services.failover.runbook.steps import HANDLERS
from mirrors.services.run_lifecycle import unexpected_error_text

log = logging.getLogger(__name__)

_UNDO_AGAIN_S = 2.0


@dataclasses.dataclass(frozen=True)
class WorkerResult:
    """What the caller does next: requeue the run in `again_s`, reconcile `changed_flow`."""

    again_s: float | None = None
    changed_flow: int | None = None


def advance(*, run_id: int, at_step: Callable[[str], None] = lambda _: None) -> WorkerResult:
    """Take the lease of a run and advance the run. Does nothing when another worker has the lease.

    `at_step` is called with a step's name after its row was written.
    """
    run = lease.take(run_id=run_id)
    if run is None:
        return WorkerResult()
    asked = run.flow.desired_state
    again_s: float | None = None
    try:
        again_s = _work(run, at_step)
    except lease.LeaseLost:
        log.warning("another worker took over run %s", run.pk)
        return WorkerResult()
    finally:
        lease.release(run=run, again_s=again_s)
    changed = Flow.objects.filter(pk=run.flow_id).exclude(desired_state=asked).exists()
    return WorkerResult(again_s, run.flow_id if changed else None)


def _work(run: FailoverRun, at_step: Callable[[str], None]) -> float | None:
    """Seconds until the run needs a worker again; None when it waits for a person or has ended."""
    while True:
        lease.renew(run=run)
        run.refresh_from_db(fields=["abort_asked_by", "pause_asked_by", "approved_by", "plan"])
        steps = list(run.steps.all())
        move = next_action(lease.facts_of(run=run, steps=steps))
        if isinstance(move, EndRun):
            result.end(run=run, state=move.state, steps=steps)
            return None
        if isinstance(move, AwaitPerson):
            lease.await_person(run=run, why=move.why, step=move.step)
            return None
        row = next(step for step in steps if step.name == move.step)
        wait_s = _do(run, row) if isinstance(move, ExecuteStep) else _undo(run, row)
        at_step(row.name)
        if wait_s is not None:
            return wait_s


def _context(run: FailoverRun, row: FailoverStep, *, again: bool) -> Context:
    flow = Flow.objects.select_related("source", "target", "runner").get(pk=run.flow_id)
    return Context(
        run=run,
        flow=flow,
        spec=flow.spec,
        row=row,
        alive=lambda: lease.renew(run=run),
        again=again,
    )


def _do(run: FailoverRun, row: FailoverStep) -> float | None:
    """Run a step: its act unless done, then its wait; seconds until the next check, or None."""
    step, now = BY_NAME[row.name], timezone.now()
    lease.begin(row=row, step=step, now=now)
    outcome = _tried(lambda: _acted(run, row))
    if outcome is None:
        outcome = _tried(lambda: HANDLERS[row.name].wait(_context(run, row, again=False)))
    if outcome is None:
        raise AssertionError("a wait always returns an outcome")
    return _judged(run, row, step, outcome)


def _acted(run: FailoverRun, row: FailoverStep) -> Outcome | None:
    if row.acted_at is not None:
        return None
    # `again` is false after a person's retry: the person checked before.
    context = _context(run, row, again=row.acting_at is not None and row.attempt > 0)
    lease.record_action_start(row=row)
    outcome = HANDLERS[row.name].act(context)
    if outcome is None:
        lease.record_action_end(row=row)
    return outcome


def _tried(act: Callable[[], Outcome | None]) -> Outcome | None:
    """Turn every failure into an outcome with a sentence; lease and database errors propagate."""
    try:
        return act()
    except (lease.LeaseLost, DatabaseError):
        raise
    except UnderstudyError as error:
        again = isinstance(error, KafkaUnavailable)
        return Outcome(what="failed", words=error.message, again=again)
    except Exception as error:
        log.exception("a failover step raised an unexpected error")
        return Outcome(what="failed", words=unexpected_error_text(error))


def _judged(run: FailoverRun, row: FailoverStep, step: Step, outcome: Outcome) -> float | None:
    now = milliseconds(timezone.now())
    verdict = judge(step, lease.step_facts(row), outcome, now=now)
    lease.renew(run=run)
    move(row, verdict.state)
    row.reason = verdict.words
    row.result = {**row.result, **outcome.numbers}
    if verdict.restarts_action:
        row.acted_at = None
    if verdict.state not in ("running", "waiting"):
        row.ended_at = timezone.now()
    row.save(update_fields=["state", "reason", "result", "acted_at", "ended_at"])
    if verdict.next_at is None:
        return None
    return max(0.0, (moment(verdict.next_at) - timezone.now()) / timedelta(seconds=1))


def _undo(run: FailoverRun, row: FailoverStep) -> float | None:
    row.undo_tries += 1
    row.save(update_fields=["undo_tries"])
    at: datetime | None = None
    try:
        words = HANDLERS[row.name].undo(_context(run, row, again=True))
        at = timezone.now()
    except lease.LeaseLost:
        raise
    except UnderstudyError as error:
        words = error.message
    row.undone_at, row.undo_reason = at, words
    row.save(update_fields=["undone_at", "undo_reason"])
    return None if at else _UNDO_AGAIN_S
