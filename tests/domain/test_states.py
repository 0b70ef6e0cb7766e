"""States of runs and findings: one declaration each, consistent with the rules of a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.runbook.state_machine import DONE, Outcome, StepFacts, judge
from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.domain.state_machine import ForbiddenTransition, StateMachine
from mirrors.domain.states import MACHINES, findings, flows, runs, sync
from monitoring.domain.alerts import states as alerts

ALL = MACHINES | alerts.MACHINES
EVERY = pytest.mark.parametrize("machine", ALL.values(), ids=ALL.keys())
# Machines without an end, and a state to which each of their states leads.
ENDLESS = {
    "Desired state of a flow": "stopped",
    "Observed state of a flow": "running",
    "Runner": "ready",
    "Plan of a flow's target": "ready",
}


@EVERY
def test_each_state_says_what_it_means_and_how_it_is_entered(machine: StateMachine) -> None:
    for state in machine.states:
        assert state.meaning, state.name
        assert state.cause, state.name
        # The machine's column has 16 characters.
        assert len(state.name) <= 16


@pytest.mark.parametrize("title", ALL)
def test_a_run_or_finding_can_always_end(title: str) -> None:
    machine = ALL[title]
    assert bool(machine.final) == (title not in ENDLESS)
    ends = set(machine.final) or {ENDLESS[title]}
    for _ in machine.states:
        ends |= {name for name in machine.names if ends.intersection(machine.successors(name))}
    assert ends == set(machine.names)


@EVERY
@given(names=st.data())
def test_a_random_sequence_takes_declared_transitions_only(
    machine: StateMachine, names: st.DataObject
) -> None:
    state = names.draw(st.sampled_from(sorted(machine.initial)))
    machine.check_initial(state)
    for after in names.draw(st.lists(st.sampled_from([*machine.names, "unknown"]), max_size=12)):
        allowed = after == state or (state, after) in machine.transitions
        if allowed:
            machine.check(state, after)
            state = after
        else:
            with pytest.raises(ForbiddenTransition):
                machine.check(state, after)


def test_an_ended_run_never_changes_again() -> None:
    assert runs.FAILOVER_RUN.final == {"succeeded", "failed", "aborted"}
    assert runs.COMPARISON.final == {"succeeded", "failed", "aborted"}
    assert runs.FAILBACK.final == {"succeeded", "aborted"}
    assert runs.DRILL.final == {"passed", "no_objectives", "failed"}
    assert runs.CONNECTION_TEST.final == {"succeeded", "failed"}
    assert findings.DRIFT.final == {"fixed", "closed"}
    assert findings.GAP.final == {"closed"}
    assert flows.JOB.final == {"stopped", "failed", "lost"}
    assert sync.SYNC_RUN.final == {"succeeded", "partial", "failed"}
    assert alerts.ALERT.final == {"resolved"}
    assert alerts.DELIVERY.final == {"sent"}


def test_only_states_of_flows_jobs_and_runners_are_observed() -> None:
    """All others are decisions of this program or of a person, and are refused if undeclared."""
    observed = {title for title, machine in ALL.items() if machine.is_observed}
    assert observed == {"Observed state of a flow", "Job of a flow", "Runner"}


def test_a_run_of_a_sync_task_has_one_state_for_each_outcome() -> None:
    open_run = {"has_ended": False, "error": "", "failed_operations": 0}
    ended = open_run | {"has_ended": True}
    assert sync.state_of_run(is_claimed=False, **open_run) == "queued"
    assert sync.state_of_run(is_claimed=True, **open_run) == "running"
    assert sync.state_of_run(is_claimed=True, **ended) == "succeeded"
    assert sync.state_of_run(is_claimed=True, **ended | {"failed_operations": 2}) == "partial"
    for claimed in (True, False):
        assert sync.state_of_run(is_claimed=claimed, **ended | {"error": "Lost."}) == "failed"


OUTCOMES = st.builds(
    Outcome,
    what=st.sampled_from(["done", "skipped", "not_yet", "person", "failed"]),
    words=st.just("So it is."),
    again=st.booleans(),
)


@given(
    step=st.sampled_from(STEPS),
    outcomes=st.lists(OUTCOMES, max_size=8),
    late=st.booleans(),
    accepted=st.booleans(),
)
def test_the_rules_of_a_step_take_declared_transitions_only(
    step: object, outcomes: list[Outcome], late: bool, accepted: bool
) -> None:
    """A worker begins a pending step and judges each outcome; a person resumes or accepts."""
    state = "pending"
    for attempt, outcome in enumerate(outcomes):
        if state in DONE:
            break
        if state in ("waiting", "failed"):
            after = "succeeded" if accepted and state == "failed" else "pending"
            runs.FAILOVER_STEP.check(state, after)
            state = after
            continue
        runs.FAILOVER_STEP.check(state, "running")
        facts = StepFacts(name=step.name, state="running", attempt=attempt, due_at=10)
        after = judge(step, facts, outcome, now=20 if late else 5).state
        runs.FAILOVER_STEP.check("running", after)
        state = after
