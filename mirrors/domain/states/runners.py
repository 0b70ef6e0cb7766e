"""States of runners, as their processes and status files show them."""

from __future__ import annotations

from typing import Final

from mirrors.domain.state_machine import State, StateMachine, States


class RunnerState(States):
    """Of a runner. The state of its last report; without a report it has no process."""

    ABSENT = State(
        name="absent",
        meaning="it was never started",
        cause="a person registers it, or the first flow needs it",
    )
    STARTING = State(
        name="starting",
        meaning="its process starts Spark",
        cause="a flow needs it; or a living process is found that the row does not have",
        predecessors=frozenset({"absent", "ready", "degraded", "stopping", "lost"}),
    )
    READY = State(
        name="ready",
        meaning="it runs flows",
        cause="it reports it",
        predecessors=frozenset({"starting", "degraded", "lost"}),
    )
    DEGRADED = State(
        name="degraded",
        meaning="it runs flows, but Spark cannot run all of their slices",
        cause="it reports it",
        predecessors=frozenset({"starting", "ready", "lost"}),
        action="read the reason",
    )
    STOPPING = State(
        name="stopping",
        meaning="its flows commit, then its process ends",
        cause="its process ends on a signal; or the reconciler replaces one that hangs or has "
        "another master",
        predecessors=frozenset({"starting", "ready", "degraded", "lost"}),
    )
    LOST = State(
        name="lost",
        meaning="its process has ended, or did not start",
        cause="the process is not found, could not be started, or was replaced",
        predecessors=frozenset({"starting", "ready", "degraded", "stopping"}),
        action="read the reason; the reconciler starts it again while a flow needs it",
    )


RUNNER = StateMachine(RunnerState.declared(), initial=("absent",), is_observed=True)
# It has a process, which may still start.
RUNS: Final = frozenset({RunnerState.STARTING, RunnerState.READY, RunnerState.DEGRADED})
