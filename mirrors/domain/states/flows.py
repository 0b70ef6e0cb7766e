"""States of flows and their jobs: what people want, what is observed, what a runner reports."""

from __future__ import annotations

from mirrors.domain.state_machine import State, StateMachine, States


class DesiredState(States):
    """Of a flow: what it should do. People, schedules and the end of a bounded run set it."""

    RUNNING = State(
        name="running",
        meaning="it should replicate",
        cause="a person starts or resumes it, or its schedule starts it",
        predecessors=frozenset({"paused", "stopped"}),
    )
    PAUSED = State(
        name="paused",
        meaning="it should keep its plan in the runner and copy nothing",
        cause="a person pauses it",
        predecessors=frozenset({"running"}),
        action="resume it",
    )
    STOPPED = State(
        name="stopped",
        meaning="it should have no job",
        cause="a person, a failover or its window stops it, its run ends, or its first start is "
        "refused",
        predecessors=frozenset({"running", "paused"}),
        action="start it",
    )


DESIRED = StateMachine(DesiredState.declared(), initial=("running", "paused", "stopped"))

# A flow with a job, or one that gets a job soon.
_WITH_JOB = frozenset({"starting", "running", "degraded", "backing_off", "paused"})
# A flow without a job. A job may outlive the failover that marked its flow.
_WITHOUT_JOB = frozenset({"draft", "stopped", "failed", "failed_over"})
_ANY = _WITH_JOB | _WITHOUT_JOB


class ObservedState(States):
    """Of a flow: what it does, as processes and files show it. Only the reconciler and a failover
    write it."""

    DRAFT = State(
        name="draft",
        meaning="created, never started",
        cause="a person creates it",
        action="start it",
    )
    STARTING = State(
        name="starting",
        meaning="a runner or a plan is being prepared",
        cause="a job starts or starts again, its runner died, or a stop waits for the first status",
        predecessors=_ANY - {"starting"},
    )
    RUNNING = State(
        name="running",
        meaning="it copies everything that it should copy",
        cause="the runner reports it, or commits before a stop",
        predecessors=_WITH_JOB - {"running"} | {"failed_over"},
    )
    DEGRADED = State(
        name="degraded",
        meaning="it copies, but not everything; or nothing supervises it or reports about it",
        cause="the runner reports a problem or nothing, another producer writes its topics, no "
        "worker serves its host, or it could not be reconciled",
        predecessors=_ANY - {"degraded"},
        action="read the reason and correct its cause",
    )
    BACKING_OFF = State(
        name="backing_off",
        meaning="it failed and is retried at the time shown",
        cause="a job fails, or its runner dies during its start",
        predecessors=_ANY - {"backing_off", "draft"},
        action="read the reason; start it to retry at once",
    )
    PAUSED = State(
        name="paused",
        meaning="copies nothing, on request; its plan is kept",
        cause="the runner reports it after a pause",
        predecessors=_WITH_JOB - {"paused"} | {"failed_over"},
        action="resume it",
    )
    STOPPED = State(
        name="stopped",
        meaning="copies nothing, and has no job",
        cause="its job ended after a stop, at the end of its run, or outside its window",
        predecessors=_WITH_JOB | {"failed_over"},
        action="start it",
    )
    FAILED = State(
        name="failed",
        meaning="it is not retried",
        cause="its first start is refused",
        predecessors=_WITH_JOB | {"failed_over"},
        action="correct the cause, or accept it; then start it",
    )
    FAILED_OVER = State(
        name="failed_over",
        meaning="its target has taken over",
        cause="a failover or a switchover succeeds",
        predecessors=_ANY - {"failed_over"},
        action="fail back",
    )


OBSERVED = StateMachine(ObservedState.declared(), initial=("draft",), is_observed=True)

_OPEN = frozenset({"starting", "running", "degraded", "paused"})


class JobState(States):
    """Of one run of a flow in a runner. While it is open, its runner reports the state."""

    STARTING = State(
        name="starting",
        meaning="the runner has its spec, and plans or starts its slices",
        cause="the reconciler opens it; or the runner plans again after an edit or a resume",
        predecessors=_OPEN - {"starting"},
    )
    RUNNING = State(
        name="running",
        meaning="every slice copies, or commits before the next phase",
        cause="the runner reports it",
        predecessors=_OPEN - {"running"},
    )
    DEGRADED = State(
        name="degraded",
        meaning="a partition, a slice or an operation has a problem",
        cause="the runner reports it",
        predecessors=_OPEN - {"degraded"},
        action="read the reason",
    )
    PAUSED = State(
        name="paused",
        meaning="it keeps its plan and copies nothing",
        cause="the runner reports it after a pause",
        predecessors=_OPEN - {"paused"},
    )
    STOPPED = State(
        name="stopped",
        meaning="it ended as requested, or at the end of its run",
        cause="the runner reports it; or the runner does not run, or does not have it, at a stop",
        predecessors=_OPEN,
    )
    FAILED = State(
        name="failed",
        meaning="it ended with an error",
        cause="the runner reports an error, or refuses the first start",
        predecessors=_OPEN,
        action="read the error",
    )
    LOST = State(
        name="lost",
        meaning="nobody knows how it ended; the next job resumes at its last commit",
        cause="its runner died, it did not report, or it ended without an order",
        predecessors=_OPEN,
    )


JOB = StateMachine(JobState.declared(), initial=("starting",), is_observed=True)
