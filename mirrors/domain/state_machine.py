"""State machines declared as data: each state with its meaning, cause and predecessors.

Code checks transitions against the declaration. Documents are tested against it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable
from typing import Self


class ForbiddenTransition(ValueError):
    """A transition that the declaration does not contain: an internal error."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """`cause` leads to the state, `action` is what an operator does; empty for nothing."""

    name: str
    meaning: str
    cause: str
    predecessors: frozenset[str] = frozenset()
    action: str = ""

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").title()


class States(enum.StrEnum):
    """An enumeration whose members declare the states of one machine: `NAME = State(…)`.

    The value of a member is the state's name.
    """

    declaration: State

    def __new__(cls, declaration: State) -> Self:
        member = str.__new__(cls, declaration.name)
        member._value_ = declaration.name
        member.declaration = declaration
        return member

    @classmethod
    def declared(cls) -> list[State]:
        return [member.declaration for member in cls]


class StateMachine:
    """Immutable. Raises ValueError for a declaration that contradicts itself.

    `is_observed`: a state is what a process outside shows, not what this program decides. An
    undeclared transition is then logged and stored, since the observation is true nevertheless.
    """

    def __init__(
        self, states: Iterable[State], *, initial: Collection[str], is_observed: bool = False
    ) -> None:
        self.states = tuple(states)
        self.is_observed = is_observed
        self.initial = frozenset(initial)
        self._predecessors = {state.name: state.predecessors for state in self.states}
        if len(self._predecessors) != len(self.states):
            raise ValueError("two states have the same name")
        mentioned = self.initial.union(*self._predecessors.values())
        if unknown := mentioned - self._predecessors.keys():
            raise ValueError(f"unknown states: {', '.join(sorted(unknown))}")
        if lost := self._predecessors.keys() - self._reachable():
            raise ValueError(f"unreachable states: {', '.join(sorted(lost))}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(state.name for state in self.states)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Name and label of each state, as forms and model fields have them."""
        return [(state.name, state.label) for state in self.states]

    @property
    def final(self) -> frozenset[str]:
        """States that no transition leaves."""
        return frozenset(self.names) - {before for before, _ in self.transitions}

    @property
    def transitions(self) -> frozenset[tuple[str, str]]:
        """All pairs (predecessor, state)."""
        return frozenset(
            (before, state.name) for state in self.states for before in state.predecessors
        )

    def check(self, before: str, after: str) -> None:
        """Raise ForbiddenTransition. To stay in a state is no transition."""
        if before != after and before not in self._predecessors.get(after, ()):
            raise ForbiddenTransition(f"{before} may not become {after}")

    def check_initial(self, state: str) -> None:
        if state not in self.initial:
            raise ForbiddenTransition(f"{state} may not be the first state")

    def predecessors(self, after: str) -> frozenset[str]:
        return self._predecessors[after]

    def successors(self, before: str) -> tuple[str, ...]:
        return tuple(state.name for state in self.states if before in state.predecessors)

    def mermaid(self) -> str:
        """The transitions as a drawing, for documents."""
        lines = [f"  start(( )) --> {' & '.join(n for n in self.names if n in self.initial)}"]
        lines += [
            f"  {name} --> {' & '.join(after)}"
            for name in self.names
            if (after := self.successors(name))
        ]
        return "\n".join(["flowchart LR", *lines])

    def markdown(self) -> str:
        """The states as a table, for documents."""
        rows = [
            f"| `{state.name}` | {state.meaning} | {state.cause} | "
            f"{', '.join(f'`{name}`' for name in self.names if name in state.predecessors)} | "
            f"{state.action} |"
            for state in self.states
        ]
        head = ["| state | meaning | entered when | from | what to do |", "|---|---|---|---|---|"]
        return "\n".join([*head, *rows])

    def _reachable(self) -> set[str]:
        reached = set(self.initial)
        while True:
            more = {
                name
                for name, before in self._predecessors.items()
                if before & reached and name not in reached
            }
            if not more:
                return reached
            reached |= more
