"""State machines declared as data: each state with its meaning, cause and predecessors.

Code checks transitions against the declaration. Documents are tested against it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable


class ForbiddenTransition(ValueError):
    """A transition that the declaration does not contain: an internal error."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """`cause` leads to the state, `action` is what an operator does; empty for nothing."""

    name: str
    meaning: str
    cause: str
    predecessors: frozenset[str]
    action: str = ""


class StateMachine:
    """Immutable. Raises ValueError for a declaration that contradicts itself."""

    def __init__(self, states: Iterable[State], *, initial: Collection[str]) -> None:
        self.states = tuple(states)
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
    def transitions(self) -> frozenset[tuple[str, str]]:
        """All pairs (predecessor, state)."""
        return frozenset(
            (before, state.name) for state in self.states for before in state.predecessors
        )

    def check(self, before: str, after: str) -> None:
        """Raise ForbiddenTransition. To stay in a state is no transition."""
        if before != after and before not in self._predecessors[after]:
            raise ForbiddenTransition(f"{before} may not become {after}")

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
