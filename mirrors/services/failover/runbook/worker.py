"""One turn of a run: what is next, its act, what came of it, until something has to be waited for.

Whoever takes a run up, after a crash too, starts from its rows. A turn that lost its run, because
it was mute for too long, finds out before its next act.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.utils import timezone

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.runbook.state_machine import Do, End, Outcome, Rest, judge, next_move
from mirrors.domain.failover.runbook.steps import BY_NAME, Step
from mirrors.domain.settings.failover import CONSUMERS
from mirrors.models import FailoverRun, FailoverStep, Flow
from mirrors.models.failover import StepState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.failover.runbook import lease, result
from mirrors.services.failover.runbook.context import Context, Handler
from mirrors.services.failover.runbook.steps.drain import DRAIN
from mirrors.services.failover.runbook.steps.fence import FENCE
from mirrors.services.failover.runbook.steps.hooks import hook
from mirrors.services.failover.runbook.steps.preflight import DETECT, VERIFY_TARGET
from mirrors.services.failover.runbook.steps.read_checkpoints import READ_CHECKPOINTS
from mirrors.services.failover.runbook.steps.redirect_producers import REDIRECT_PRODUCERS
from mirrors.services.failover.runbook.steps.reset_groups import RESET_GROUPS
from mirrors.services.failover.runbook.steps.verify_flow import VERIFY_FLOW
from mirrors.services.run_lifecycle import broken

log = logging.getLogger(__name__)

HANDLERS: dict[str, Handler] = {
    "detect": DETECT,
    "verify_target": VERIFY_TARGET,
    "fence_producers": FENCE,
    "drain": DRAIN,
    "read_checkpoints": READ_CHECKPOINTS,
    "reset_groups": RESET_GROUPS,
    "start_consumers": hook(CONSUMERS),
    "redirect_producers": REDIRECT_PRODUCERS,
    "verify_flow": VERIFY_FLOW,
}
_UNDO_AGAIN_S = 2.0


@dataclasses.dataclass(frozen=True)
class Turn:
    """What the caller does next: send the run again in `again_s`, have the flow looked after."""

    again_s: float | None = None
    changed_flow: int | None = None


def advance(*, run_id: int, at_step: Callable[[str], None] = lambda _: None) -> Turn:
    """Take the run and do what can be done now. Does nothing when another turn has it.

    `at_step` is called with a step's name after its row was written.
    """
    run = lease.take(run_id=run_id)
    if run is None:
        return Turn()
    asked = run.flow.desired_state
    again_s: float | None = None
    try:
        again_s = _work(run, at_step)
    except lease.Overtaken:
        log.warning("run %s was taken up by another worker", run.pk)
        return Turn()
    finally:
        lease.let_go(run=run, again_s=again_s)
    changed = Flow.objects.filter(pk=run.flow_id).exclude(desired_state=asked).exists()
    return Turn(again_s, run.flow_id if changed else None)


def _work(run: FailoverRun, at_step: Callable[[str], None]) -> float | None:
    """Seconds until the run is to be looked at again; None when it rests or has ended."""
    while True:
        lease.alive(run=run)
        run.refresh_from_db(fields=["abort_asked_by", "pause_asked_by", "approved_by", "plan"])
        steps = list(run.steps.all())
        move = next_move(lease.facts_of(run=run, steps=steps))
        if isinstance(move, End):
            result.end(run=run, state=move.state, steps=steps)
            return None
        if isinstance(move, Rest):
            lease.rest(run=run, why=move.why, step=move.step)
            return None
        row = next(step for step in steps if step.name == move.step)
        wait_s = _do(run, row) if isinstance(move, Do) else _undo(run, row)
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
        alive=lambda: lease.alive(run=run),
        again=again,
    )


def _do(run: FailoverRun, row: FailoverStep) -> float | None:
    """One look at a step, with its act where that is not done; seconds to wait, or None."""
    step, now = BY_NAME[row.name], timezone.now()
    lease.begin(row=row, step=step, now=now)
    outcome = _tried(lambda: _acted(run, row))
    if outcome is None:
        outcome = _tried(lambda: HANDLERS[row.name].wait(_context(run, row, again=False)))
    if outcome is None:
        raise AssertionError("a wait always says what it found")
    return _judged(run, row, step, outcome)


def _acted(run: FailoverRun, row: FailoverStep) -> Outcome | None:
    if row.acted_at is not None:
        return None
    # A person who has it tried again has looked before.
    context = _context(run, row, again=row.acting_at is not None and row.attempt > 0)
    lease.note_act(row=row)
    outcome = HANDLERS[row.name].act(context)
    if outcome is None:
        lease.note_acted(row=row)
    return outcome


def _tried(act: Callable[[], Outcome | None]) -> Outcome | None:
    """Every failure is an outcome in words; what is not ours to judge goes on."""
    try:
        return act()
    except (lease.Overtaken, DatabaseError):
        raise
    except UnderstudyError as error:
        again = isinstance(error, KafkaUnavailable)
        return Outcome(what="failed", words=error.message, again=again)
    except Exception as error:
        log.exception("a step broke")
        return Outcome(what="failed", words=broken(error))


def _judged(run: FailoverRun, row: FailoverStep, step: Step, outcome: Outcome) -> float | None:
    now = milliseconds(timezone.now())
    verdict = judge(step, lease.step_facts(row), outcome, now=now)
    lease.alive(run=run)
    row.state, row.reason = StepState(verdict.state), verdict.words
    row.result = {**row.result, **outcome.numbers}
    if verdict.afresh:
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
    except lease.Overtaken:
        raise
    except UnderstudyError as error:
        words = error.message
    row.undone_at, row.undo_reason = at, words
    row.save(update_fields=["undone_at", "undo_reason"])
    return None if at else _UNDO_AGAIN_S
