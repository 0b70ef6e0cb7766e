"""Rules of a run: the next step after any crash, what stops it, what a person agreed to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.runbook.state_machine import (
    AwaitPerson,
    EndRun,
    ExecuteStep,
    Outcome,
    RunFacts,
    StepFacts,
    UndoStep,
    judge,
    next_action,
)
from mirrors.domain.failover.runbook.steps import BY_NAME, STEPS

NAMES = [step.name for step in STEPS]
CHANGING = [step.name for step in STEPS if step.changes]


class Crash(Exception):
    """The worker is no more."""


class World:
    """Rows of a run, and what its acts left outside; each act looks before it leaps."""

    def __init__(self, deaths: list[int]) -> None:
        self.rows = {name: StepFacts(name=name) for name in NAMES}
        self.effects: list[str] = []
        self.undone: list[str] = []
        self.aborts = False
        self._deaths = deaths
        self._clock = 0

    def facts(self) -> RunFacts:
        return RunFacts(steps=list(self.rows.values()), abort_asked=self.aborts)

    def write(self, name: str, **facts: Any) -> None:
        """A row is written; the worker may die right before or right after."""
        self._may_die()
        self.rows[name] = dataclasses.replace(self.rows[name], **facts)
        self._may_die()

    def do(self, name: str, outcome: Outcome) -> None:
        row = self.rows[name]
        self.write(name, state="running", begun=BY_NAME[name].changes, attempt=row.attempt + 1)
        if name in CHANGING and name not in self.effects:
            self.effects.append(name)
        verdict = judge(BY_NAME[name], self.rows[name], outcome, now=0)
        self.write(name, state=verdict.state)

    def undo(self, name: str) -> None:
        if name in self.effects:
            self.effects.remove(name)
            self.undone.append(name)
        self.write(name, undone=True)

    def _may_die(self) -> None:
        self._clock += 1
        if self._clock in self._deaths:
            raise Crash


DONE = Outcome(what="done", words="")


def run_to_its_end(world: World, *, abort_at: str = "") -> list[str]:
    """Workers come and go; the order in which steps were looked at."""
    seen: list[str] = []
    for _ in range(500):
        move = next_action(world.facts())
        try:
            match move:
                case ExecuteStep(step):
                    seen.append(step)
                    world.do(step, DONE)
                    world.aborts = world.aborts or step == abort_at
                case UndoStep(step):
                    world.undo(step)
                case EndRun(state):
                    return [*seen, state]
                case AwaitPerson():
                    raise AssertionError(move)
        except Crash:
            world.aborts = world.aborts or (isinstance(move, ExecuteStep) and move.step == abort_at)
    raise AssertionError("it does not end")


@given(deaths=st.lists(st.integers(1, 60), unique=True))
def test_whoever_dies_wherever_the_run_ends_in_the_same_state(deaths: list[int]) -> None:
    world = World(deaths)
    seen = run_to_its_end(world)
    assert seen[-1] == "succeeded"
    assert world.effects == CHANGING
    assert {row.state for row in world.rows.values()} == {"succeeded"}
    # In order, and never back: a step is looked at again only until it is done.
    order = [NAMES.index(name) for name in seen[:-1]]
    assert order == sorted(order)


@given(deaths=st.lists(st.integers(1, 60), unique=True), at=st.sampled_from(NAMES))
def test_an_abort_undoes_what_was_begun_last_first_and_leaves_nothing(
    deaths: list[int], at: str
) -> None:
    world = World(deaths)
    assert run_to_its_end(world, abort_at=at)[-1] == "aborted"
    assert world.effects == []
    assert world.undone == sorted(world.undone, key=NAMES.index, reverse=True)
    assert len(set(world.undone)) == len(world.undone)


@given(
    states=st.lists(
        st.sampled_from(["pending", "running", "waiting", "succeeded", "failed", "skipped"]),
        min_size=9,
        max_size=9,
    ),
    pause=st.booleans(),
)
def test_no_step_is_done_before_those_before_it(states: list[Any], pause: bool) -> None:
    steps = [StepFacts(name=name, state=at) for name, at in zip(NAMES, states, strict=True)]
    move = next_action(RunFacts(steps=steps, pause_asked=pause))
    first = next((step for step in steps if step.state not in ("succeeded", "skipped")), None)
    if first is None:
        assert move == EndRun("succeeded")
    else:
        assert getattr(move, "step", "") == first.name
        assert isinstance(move, ExecuteStep) <= (
            first.state in ("pending", "running") and not pause
        )


def test_trouble_before_anything_was_changed_ends_the_run_and_after_it_waits_for_a_person() -> None:
    before = [StepFacts(name="detect", state="succeeded"), StepFacts(name="b", state="failed")]
    assert next_action(RunFacts(steps=before)) == EndRun("failed", "b")
    begun = [dataclasses.replace(before[0], begun=True), before[1]]
    assert next_action(RunFacts(steps=begun)) == AwaitPerson("trouble", "b")


def test_a_way_back_that_does_not_work_is_left_to_a_person_after_some_tries() -> None:
    step = StepFacts(name="drain", begun=True, undo_tries=2)
    assert next_action(RunFacts(steps=[step], abort_asked=True)) == UndoStep("drain")
    tired = dataclasses.replace(step, undo_tries=3)
    assert next_action(RunFacts(steps=[tired], abort_asked=True)) == AwaitPerson("trouble", "drain")


@pytest.mark.parametrize(
    ("outcome", "facts", "state", "restarts_action"),
    [
        (Outcome(what="not_yet", words="w"), {"due_at": 10}, "running", False),
        (Outcome(what="not_yet", words="w"), {"due_at": 5}, "failed", False),
        (
            Outcome(what="failed", words="w", again=True),
            {"attempt": 1, "due_at": 9},
            "running",
            True,
        ),
        (
            Outcome(what="failed", words="w", again=True),
            {"attempt": 3, "due_at": 9},
            "failed",
            False,
        ),
        (
            Outcome(what="failed", words="w", again=True),
            {"attempt": 1, "due_at": 5},
            "failed",
            False,
        ),
        (Outcome(what="failed", words="w"), {"attempt": 1}, "failed", False),
        (Outcome(what="person", words="w"), {"due_at": 1}, "waiting", False),
        (Outcome(what="skipped", words="w"), {}, "skipped", False),
    ],
)
def test_a_step_is_tried_again_until_its_tries_or_its_time_are_over(
    outcome: Outcome, facts: dict[str, Any], state: str, restarts_action: bool
) -> None:
    row = StepFacts(name="drain", state="running", **facts)
    verdict = judge(BY_NAME["drain"], row, outcome, now=5)
    assert (verdict.state, verdict.restarts_action) == (state, restarts_action)
    assert "w" in verdict.words
