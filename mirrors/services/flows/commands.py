"""Commands to a flow: start, pause, resume, stop, restart, reverse."""

from __future__ import annotations

from django.db import transaction

from mirrors.domain.flows.named_offsets import without_offsets
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.transforms.rules import TRANSFORMS
from mirrors.models import Flow, claim
from mirrors.models.audit.transitions import note
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import (
    create_flow,
    forgive_failures,
    lock_flow,
    lock_pairs,
    validate_settings,
)


def start_flow(*, flow: Flow, who: str, why: str = "", accept_other_writers: bool = False) -> Flow:
    """Run, and reset the failure count: a flow that backs off starts at once.

    Before its first copy a flow checks whether another program writes its remote topics; then it
    does not start. `accept_other_writers` skips this check, and the audit log records that.
    """
    waiting = {ObservedState.BACKING_OFF, ObservedState.FAILED}
    if flow.desired_state == DesiredState.RUNNING and flow.observed_state not in waiting:
        raise Conflict(
            f"{flow.name} was already started: it is {_word(flow.observed_state)} since "
            f"{flow.since:%Y-%m-%d %H:%M:%S} UTC."
        )
    with transaction.atomic():
        lock_pairs()
        locked = lock_flow(flow)
        validate_settings(locked.source, locked.target, locked.properties, itself=locked)
        forgive_failures(locked)
        if locked.accepts_other_writers != accept_other_writers:
            locked.accepts_other_writers = accept_other_writers
            locked.save(update_fields=["accepts_other_writers"])
        if accept_other_writers:
            note(
                locked,
                what="other writers accepted",
                who=who,
                why=why or "Started although other programs write there.",
            )
        return _ask(locked, DesiredState.RUNNING, who, why or "Started.")


def pause_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Stop copying, keep the flow in the runner: resuming takes a second."""
    with transaction.atomic():
        locked = lock_flow(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped, so there is nothing to pause.")
        return _ask(locked, DesiredState.PAUSED, who, why or "Paused.")


def resume_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    with transaction.atomic():
        locked = lock_flow(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped, not paused. Start it instead.")
        return _ask(locked, DesiredState.RUNNING, who, why or "Resumed.")


def stop_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Commit and leave the runner. The next start resumes there."""
    with transaction.atomic():
        return _ask(lock_flow(flow), DesiredState.STOPPED, who, why or "Stopped.")


def restart_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """End the job at a commit and start another one."""
    with transaction.atomic():
        locked = lock_flow(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped. Start it instead.")
        locked.restarts += 1
        forgive_failures(locked)
        locked.save(update_fields=["restarts"])
        note(locked, what="restart", who=who, why=why or "Restarted.")
    return locked


def reverse_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Stop this flow and start one in the other direction, with its settings but not its rules."""
    with transaction.atomic():
        lock_pairs()
        locked = lock_flow(flow)
        reason = why or f"Reversed {locked.name}."
        _ask(locked, DesiredState.STOPPED, who, reason)
        other = Flow.objects.filter(source=locked.target, target=locked.source).first()
        if other is None:
            properties = without_offsets(locked.properties)
            properties.pop(TRANSFORMS, None)
            if properties.pop(RENAME, ""):
                raise Conflict(
                    f"{locked.name} gives topics other names ({RENAME}). A failback creates the "
                    "reverse flow with rules that give the names back; or create "
                    f"{locked.target.alias}->{locked.source.alias} with rules of its own."
                )
            return create_flow(
                source=locked.target,
                target=locked.source,
                properties=properties,
                runner=locked.runner,
                who=who,
            )
        validate_settings(other.source, other.target, other.properties, itself=other)
        return _ask(lock_flow(other), DesiredState.RUNNING, who, reason)


def _ask(flow: Flow, desired: str, who: str, why: str) -> Flow:
    """Change the desired state; without a difference nothing changes."""
    if flow.desired_state != desired:
        row = Flow.objects.filter(pk=flow.pk, desired_state=flow.desired_state)
        claim(row, desired_state=desired, reason=why, who=who)
    flow.refresh_from_db()
    return flow


def _word(state: str) -> str:
    return state.replace("_", " ")
