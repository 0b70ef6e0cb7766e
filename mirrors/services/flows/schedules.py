"""Scheduled runs: start a flow when its window opens, and stop it at its end or its window's."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django.db.models import Q, QuerySet

from mirrors.domain.audit.actors import RECONCILER, ActorKind
from mirrors.domain.cron import shown
from mirrors.domain.flows.schedule import RunSchedule, RunState, state_of_runs
from mirrors.domain.settings.flow_control import SCHEDULE
from mirrors.models import Flow, Transition, claim
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds

# The runner ends a run at the end of its window; after this delay the reconciler does.
_PATIENCE_MS = 5_000
# Transitions of a flow's desired state that begin a run, and do not resume one.
RUN_BEGAN = Q(to_state=DesiredState.RUNNING) & ~Q(from_state=DesiredState.PAUSED)


@dataclasses.dataclass(frozen=True)
class _LastCommand:
    """The last command. `by_itself`: no person gave it. `insists`: regardless of a window."""

    at: int
    by_itself: bool
    insists: bool


def complete_run(*, flow: Flow, reason: str) -> bool:
    """Mark the run as complete; False when somebody gave another command meanwhile."""
    asked = Flow.objects.filter(pk=flow.pk, desired_state=flow.desired_state)
    return claim(asked, desired_state=DesiredState.STOPPED, reason=reason, who=RECONCILER)


def run_state(*, flow: Flow, now: datetime) -> RunState | None:
    """State of a run with an end, and when the next one begins; None for other flows."""
    runs = RunSchedule.of(flow.properties)
    if runs.schedule is None and runs.until is None:
        return None
    asked = _asked(flow)
    return state_of_runs(
        runs,
        desired=flow.desired_state,
        asked_at=asked.at if asked else None,
        by_itself=asked is not None and asked.by_itself,
        ran_since=_ran_since(flow),
        now=milliseconds(now),
    )


def reason_with_next_run(*, flow: Flow, reason: str, finished: bool, now: datetime) -> str:
    """The reason why it is stopped, with the next run, unless a person stopped the flow."""
    runs, moment = RunSchedule.of(flow.properties), milliseconds(now)
    if runs.schedule is None:
        return reason
    if not finished and ((asked := _asked(flow)) is None or not asked.by_itself):
        return reason
    begins = runs.begins(rests_since=moment, ran_since=_ran_since(flow), now=moment)
    if begins is None:
        return reason
    return f"{reason} The next run is " + ("due." if begins <= moment else f"at {shown(begins)}.")


def ends_at(*, flow: Flow, now: datetime) -> int | None:
    """When its window ends the current run."""
    runs, asked = RunSchedule.of(flow.properties), None
    if runs.window is not None:
        asked = _asked(flow)
    if asked is None:
        return None
    return runs.ends(asked_at=asked.at, insists=asked.insists, now=milliseconds(now))


def apply_schedule(*, flow: Flow, now: datetime) -> bool:
    """Start the next run of a stopped flow, or end one whose window has closed."""
    if flow.desired_state == DesiredState.STOPPED:
        return _start_if_due(flow, now)
    return flow.desired_state == DesiredState.RUNNING and _end_if_closed(flow, now)


def _start_if_due(flow: Flow, now: datetime) -> bool:
    """Does not start a flow that a person stopped."""
    runs, moment = RunSchedule.of(flow.properties), milliseconds(now)
    if runs.schedule is None or (asked := _asked(flow)) is None or not asked.by_itself:
        return False
    begins = runs.begins(rests_since=asked.at, ran_since=_ran_since(flow), now=moment)
    if begins is None or begins > moment:
        return False
    why = f"{SCHEDULE}={runs.schedule}: "
    why += f"the run of {shown(begins)}." if runs.window is None else "its window is open."
    stopped = Flow.objects.filter(pk=flow.pk, desired_state=DesiredState.STOPPED)
    changes = {"forgiven_at": now, "attempt": 0, "retry_at": None}
    return claim(
        stopped, desired_state=DesiredState.RUNNING, reason=why, who=RECONCILER, changes=changes
    )


def _end_if_closed(flow: Flow, now: datetime) -> bool:
    """End a run that the runner cannot end: no runner lives, or the flow started out of window."""
    runs, moment = RunSchedule.of(flow.properties), milliseconds(now)
    if runs.window is None or runs.window.is_open(moment) or (asked := _asked(flow)) is None:
        return False
    ends = runs.ends(asked_at=asked.at, insists=asked.insists, now=moment)
    if ends is None or moment < ends + (_PATIENCE_MS if ends > asked.at else 0):
        return False
    reason = reason_with_next_run(flow=flow, reason="Its window is closed.", finished=True, now=now)
    running = Flow.objects.filter(pk=flow.pk, desired_state=DesiredState.RUNNING)
    return claim(
        running,
        desired_state=DesiredState.STOPPED,
        reason=reason,
        who=RECONCILER,
        changes={"reason": reason},
    )


def _rows(flow: Flow) -> QuerySet[Transition]:
    """Newest first."""
    return Transition.objects.filter(subject="flow", subject_id=flow.pk, field="desired_state")


def _ran_since(flow: Flow) -> int | None:
    began = _rows(flow).filter(RUN_BEGAN).first()
    return None if began is None else milliseconds(began.when)


def _asked(flow: Flow) -> _LastCommand | None:
    newest, *older = [*_rows(flow)[:2], None]
    if newest is None:
        return None
    by_itself = newest.kind == ActorKind.PROCESS
    # A stopped flow that a person starts anyway, or one that a person resumes.
    rested = older[0] is not None and older[0].kind == ActorKind.PROCESS
    insists = not by_itself and (rested or newest.from_state == DesiredState.PAUSED)
    return _LastCommand(milliseconds(newest.when), by_itself, insists)
