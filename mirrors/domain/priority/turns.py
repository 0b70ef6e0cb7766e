"""Whose turn it is to be read: shares by weight among the classes that wait (start-time fair).

Every class has a clock that its bytes move, slower the more it weighs; the class whose clock is
furthest behind has the turn. Two classes that both wait the whole time get bytes in the ratio of
their weights, but for one reply each; a class that waits alone gets everything; and a class that
begins to wait has saved nothing up, so it cannot shut the others out.
"""

from __future__ import annotations

from collections.abc import Collection

from mirrors.domain.priority.ranks import WEIGHTS, Rank


class Turns:
    """Of one source broker, whose replies are asked for one after the other."""

    def __init__(self) -> None:
        self._clocks: dict[Rank, float] = dict.fromkeys(WEIGHTS, 0.0)
        self._now = 0.0
        self._waited: Collection[Rank] = ()

    def next(self, waiting: Collection[Rank]) -> Rank | None:
        """The class that has the next turn; None where nobody waits."""
        for rank in waiting:
            if rank not in self._waited:
                self._clocks[rank] = max(self._clocks[rank], self._now)
        self._waited = waiting
        if not waiting:
            return None
        rank = min(waiting, key=lambda rank: (self._clocks[rank], -WEIGHTS[rank]))
        self._now = max(self._now, self._clocks[rank])
        return rank

    def took(self, rank: Rank, size: int) -> None:
        """What a reply brought of this class, whosever turn it was."""
        self._clocks[rank] += size / WEIGHTS[rank]
