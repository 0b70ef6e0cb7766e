"""States of sync tasks: the run of one, and the plan of a flow's target."""

from __future__ import annotations

from mirrors.domain.state_machine import State, StateMachine, States


class SyncRunState(States):
    """Of one run of a sync task. Its row has no state: the state follows from its outcome."""

    QUEUED = State(
        name="queued",
        meaning="the request is stored; no worker has it",
        cause="a person requests the check before a takeover",
    )
    RUNNING = State(
        name="running",
        meaning="a worker runs the task",
        cause="the task is due, and a worker takes its slot; or a worker claims the request",
        predecessors=frozenset({"queued"}),
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="it did everything that it should; its reasons say what was left undone",
        cause="the task ends",
        predecessors=frozenset({"running"}),
    )
    PARTIAL = State(
        name="partial",
        meaning="some of its operations failed",
        cause="the task ends, and counts failed operations",
        predecessors=frozenset({"running"}),
        action="read the reasons; the next run repeats them",
    )
    FAILED = State(
        name="failed",
        meaning="it did not reach its end",
        cause="a cluster refuses a request, the task breaks, or its message or worker is lost",
        predecessors=frozenset({"queued", "running"}),
        action="read the error; the next run of a schedule repeats it, a person repeats a check",
    )


SYNC_RUN = StateMachine(SyncRunState.declared(), initial=("queued", "running"))


def state_of_run(
    *, is_claimed: bool, has_ended: bool, error: str, failed_operations: int
) -> SyncRunState:
    """The state of a run from its outcome."""
    if not has_ended:
        return SyncRunState.RUNNING if is_claimed else SyncRunState.QUEUED
    if error:
        return SyncRunState.FAILED
    return SyncRunState.PARTIAL if failed_operations else SyncRunState.SUCCEEDED


class PlanState(States):
    """Of what a flow would change on its target. There is one plan of each flow."""

    ASKED = State(
        name="asked",
        meaning="a worker reads both clusters, or will",
        cause="a person requests a plan; or an apply lost its worker, and a person requests again",
        predecessors=frozenset({"ready", "applying", "applied", "stale", "failed"}),
    )
    READY = State(
        name="ready",
        meaning="these changes are what the flow would do now",
        cause="a worker or the sync task has read both clusters",
        predecessors=frozenset({"asked", "applying", "applied", "stale", "failed"}),
        action="read it; then apply it",
    )
    APPLYING = State(
        name="applying",
        meaning="a worker changes the target",
        cause="a person applies the plan that it has read",
        predecessors=frozenset({"asked", "ready", "applied", "stale", "failed"}),
    )
    APPLIED = State(
        name="applied",
        meaning="the target has every change of the plan",
        cause="the worker applied it",
        predecessors=frozenset({"applying"}),
    )
    STALE = State(
        name="stale",
        meaning="nothing was applied; these changes are the new plan",
        cause="the clusters changed after a person read the plan",
        predecessors=frozenset({"applying"}),
        action="read the new plan; then apply it",
    )
    FAILED = State(
        name="failed",
        meaning="both clusters could not be read, or some changes were refused",
        cause="a cluster refuses a request or does not respond",
        predecessors=frozenset({"asked", "ready", "applying", "applied", "stale"}),
        action="correct the cause; then request a plan again",
    )


PLAN = StateMachine(PlanState.declared(), initial=("asked", "ready"))
