"""Bounded runs: a flow that has reached its end is stopped, and started again when it is time."""

from __future__ import annotations

from datetime import datetime

from mirrors.domain.keys.control import SCHEDULE
from mirrors.domain.schedules import is_due, next_run_ms, shown
from mirrors.models import Flow, Transition, claim
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds
from mirrors.services.processes import SUPERVISOR


def finish(*, flow: Flow, reason: str) -> bool:
    """What was asked for is done; False when somebody asked for something else meanwhile."""
    asked = Flow.objects.filter(pk=flow.pk, desired_state=DesiredState.RUNNING)
    return claim(asked, desired_state=DesiredState.STOPPED, reason=reason, who=SUPERVISOR)


def with_next(*, flow: Flow, reason: str, now: datetime) -> str:
    schedule = flow.properties.get(SCHEDULE)
    if schedule is None:
        return reason
    return f"{reason} The next run is at {shown(next_run_ms(schedule, milliseconds(now)))}."


def start_if_due(*, flow: Flow, now: datetime) -> bool:
    """Begin the next run of a flow that rests between two; not of one that a person stopped."""
    schedule = flow.properties.get(SCHEDULE)
    if schedule is None or flow.desired_state != DesiredState.STOPPED:
        return False
    rests = Transition.objects.filter(
        subject="flow", subject_id=flow.pk, field="desired_state"
    ).first()
    if rests is None or rests.who != SUPERVISOR:
        return False
    since = milliseconds(rests.when)
    if not is_due(schedule, rests_since=since, now=milliseconds(now)):
        return False
    why = f"{SCHEDULE}={schedule}: the run of {shown(next_run_ms(schedule, since))}."
    asked = Flow.objects.filter(pk=flow.pk, desired_state=DesiredState.STOPPED)
    changes = {"forgiven_at": now, "attempt": 0, "retry_at": None}
    return claim(
        asked, desired_state=DesiredState.RUNNING, reason=why, who=SUPERVISOR, changes=changes
    )
