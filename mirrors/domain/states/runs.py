"""States of failover runs and their steps, failbacks, comparisons, drills, connection tests."""

from __future__ import annotations

from mirrors.domain.state_machine import State, StateMachine, States

_QUEUED = "the request and its message are stored; no worker has it"
_REQUESTED = "a person or a schedule requests it"
_CLAIMED = "a worker claims it"


class FailoverState(States):
    """Of a simulation, a switchover or a failover."""

    QUEUED = State(name="queued", meaning=_QUEUED, cause=_REQUESTED)
    RUNNING = State(
        name="running",
        meaning="a worker executes its steps, or undoes them after an abort",
        cause=f"{_CLAIMED}; or a person approves, resumes, confirms or aborts a waiting run",
        predecessors=frozenset({"queued", "waiting"}),
    )
    WAITING = State(
        name="waiting",
        meaning="nothing happens until a person acts",
        cause="it needs an approval, or a person paused it, or a step needs a person or failed",
        predecessors=frozenset({"running"}),
        action="read the reason; approve, resume, confirm or abort",
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="each step was done",
        cause="the last step is done",
        predecessors=frozenset({"running"}),
    )
    FAILED = State(
        name="failed",
        meaning="it ended, and nothing has to be undone",
        cause="a step fails before anything changed, or a simulation fails or loses its worker",
        predecessors=frozenset({"running"}),
        action="correct the cause; simulate again",
    )
    ABORTED = State(
        name="aborted",
        meaning="a person ended it, and its steps were undone",
        cause="a person aborts a queued run; or a worker has undone the steps of an aborted one",
        predecessors=frozenset({"queued", "running"}),
    )


FAILOVER_RUN = StateMachine(FailoverState.declared(), initial=("queued", "waiting"))


class StepState(States):
    """Of one step of a failover run."""

    PENDING = State(
        name="pending",
        meaning="it has not begun, or begins again",
        cause="a person resumes the run after the step failed or waited",
        predecessors=frozenset({"failed", "waiting"}),
    )
    RUNNING = State(
        name="running",
        meaning="a worker acts, or waits for the effect",
        cause="the steps before it are done, or a person confirms what it asked for",
        predecessors=frozenset({"pending", "waiting"}),
    )
    WAITING = State(
        name="waiting",
        meaning="a person has to do something",
        cause="the step finds something that only a person can do",
        predecessors=frozenset({"running"}),
        action="do what its reason asks for, then confirm or resume",
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="its effect was verified, or a person accepted the result",
        cause="the check finds the effect; or a person accepts a failed step",
        predecessors=frozenset({"running", "failed"}),
    )
    FAILED = State(
        name="failed",
        meaning="it was not done",
        cause="Kafka refuses it, its time limit passes, or its run ends meanwhile",
        predecessors=frozenset({"running"}),
        action="correct the cause; then resume, accept or abort",
    )
    SKIPPED = State(
        name="skipped",
        meaning="it was not needed",
        cause="the step finds nothing to do, or the run ends before it",
        predecessors=frozenset({"pending", "running"}),
    )


FAILOVER_STEP = StateMachine(StepState.declared(), initial=("pending",))


class FailbackState(States):
    """Of a failback, from its preparation until the switchover back."""

    QUEUED = State(
        name="queued",
        meaning=_QUEUED,
        cause=f"{_REQUESTED}, a person retries a failed one, or its worker is lost",
        predecessors=frozenset({"preparing", "failed"}),
    )
    PREPARING = State(
        name="preparing",
        meaning="a worker lists orphans and writes the start offsets of the reverse flow",
        cause=_CLAIMED,
        predecessors=frozenset({"queued"}),
    )
    RUNNING = State(
        name="running",
        meaning="the reverse flow replicates",
        cause="the preparation is complete",
        predecessors=frozenset({"preparing"}),
        action="decide on orphans, move groups, switch over",
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="the clients moved back, or a person closed it while it ran",
        cause="its switchover succeeds, or a person closes it",
        predecessors=frozenset({"running"}),
    )
    FAILED = State(
        name="failed",
        meaning="the preparation failed; the failback stays open",
        cause="a cluster refuses a request or does not respond",
        predecessors=frozenset({"preparing"}),
        action="correct the cause; then retry or close",
    )
    ABORTED = State(
        name="aborted",
        meaning="a person closed it before the reverse flow ran",
        cause="a person closes it",
        predecessors=frozenset({"queued", "preparing", "failed"}),
    )


FAILBACK = StateMachine(FailbackState.declared(), initial=("queued",))


class ComparisonState(States):
    """Of a comparison of both clusters."""

    QUEUED = State(name="queued", meaning=_QUEUED, cause=_REQUESTED)
    RUNNING = State(
        name="running",
        meaning="workers compare, some seconds each",
        cause=f"{_CLAIMED}, and no other comparison runs",
        predecessors=frozenset({"queued"}),
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="it ended with a verdict",
        cause="everything is compared, or its limits are reached",
        predecessors=frozenset({"running"}),
    )
    FAILED = State(
        name="failed",
        meaning="it ended without a verdict; results until then are kept",
        cause="a cluster refuses a request, or three workers were lost",
        predecessors=frozenset({"running"}),
        action="correct the cause; compare again",
    )
    ABORTED = State(
        name="aborted",
        meaning="a person ended it; results until then are kept",
        cause="a person aborts it",
        predecessors=frozenset({"queued", "running"}),
    )


COMPARISON = StateMachine(ComparisonState.declared(), initial=("queued",))


class DrillState(States):
    """Of a drill: a simulation that is judged by the flow's objectives."""

    QUEUED = State(
        name="queued",
        meaning="its simulation is not requested yet",
        cause="its time has come, or a person requests it",
    )
    RUNNING = State(
        name="running",
        meaning="its simulation runs",
        cause="no other run of the flow is open",
        predecessors=frozenset({"queued"}),
    )
    PASSED = State(
        name="passed",
        meaning="the simulation succeeded and meets every objective",
        cause="the simulation ends",
        predecessors=frozenset({"running"}),
    )
    NO_OBJECTIVES = State(
        name="no_objectives",
        meaning="the simulation succeeded; the flow has no objectives to judge it by",
        cause="the simulation ends",
        predecessors=frozenset({"running"}),
        action="set objectives",
    )
    FAILED = State(
        name="failed",
        meaning="it could not begin, did not end well, or missed an objective",
        cause="the simulation ends, or it could not begin within an hour",
        predecessors=frozenset({"queued", "running"}),
        action="read the verdict",
    )


DRILL = StateMachine(DrillState.declared(), initial=("queued",))


class TestState(States):
    """Of a connection test of a cluster."""

    __test__ = False  # pytest takes every class whose name starts with Test for a suite

    QUEUED = State(name="queued", meaning=_QUEUED, cause=_REQUESTED)
    RUNNING = State(
        name="running",
        meaning="a worker connects to the cluster",
        cause=_CLAIMED,
        predecessors=frozenset({"queued"}),
    )
    SUCCEEDED = State(
        name="succeeded",
        meaning="the cluster responded",
        cause="the test ends",
        predecessors=frozenset({"running"}),
    )
    FAILED = State(
        name="failed",
        meaning="the cluster did not respond, or no worker ran the test",
        cause="the test ends, or its message or worker is lost",
        predecessors=frozenset({"queued", "running"}),
        action="read the reason; test again",
    )


CONNECTION_TEST = StateMachine(TestState.declared(), initial=("queued",))
