"""A declaration of states refuses contradictions, and transitions that it does not contain."""

from __future__ import annotations

import pytest

from mirrors.domain.state_machine import ForbiddenTransition, State, StateMachine


def state(name: str, *predecessors: str) -> State:
    return State(
        name=name, meaning=f"is {name}", cause="a cause", predecessors=frozenset(predecessors)
    )


DOOR = StateMachine([state("closed", "open"), state("open", "closed")], initial=["closed"])


def test_only_declared_transitions_pass() -> None:
    DOOR.check("closed", "open")
    DOOR.check("open", "open")
    locked = StateMachine([*DOOR.states, state("locked", "closed")], initial=["closed"])
    with pytest.raises(ForbiddenTransition, match="open may not become locked"):
        locked.check("open", "locked")
    assert DOOR.transitions == {("closed", "open"), ("open", "closed")}


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ([state("closed"), state("closed")], "two states have the same name"),
        ([state("closed", "ajar")], "unknown states: ajar"),
        ([state("closed"), state("open"), state("ajar", "open")], "unreachable states: ajar, open"),
    ],
)
def test_a_contradicting_declaration_is_refused(states: list[State], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        StateMachine(states, initial=["closed"])


def test_documents_get_a_table() -> None:
    assert DOOR.markdown().splitlines()[2:] == [
        "| `closed` | is closed | a cause | `open` |  |",
        "| `open` | is open | a cause | `closed` |  |",
    ]
