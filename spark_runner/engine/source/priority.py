"""Read the partitions of higher classes first: of those with a backlog, one class a turn.

A turn is one request to one source broker. While partitions of several classes have records that
wait, only those of the class whose turn it is stay in the fetch session; partitions without a
backlog stay in it whatever their class is, so that what is new there is met at once. So nobody
waits while there is nothing to choose between.
"""

from __future__ import annotations

from mirrors.domain.topics.priority import WEIGHTS, Rank, Ranks, Turns
from spark_runner.engine.model.partition import Track
from spark_runner.engine.source.fetch_connection import Feeder
from spark_runner.kafka_protocol.fetch import Fetched

_NORMAL = WEIGHTS["normal"]


class Precedence:
    """Of one slice. A flow that names no classes has nothing of this."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._rank_of: dict[str, Rank] = {}
        self._turns: dict[int, Turns] = {}
        # Who has a backlog, and whose partitions are out of the session meanwhile.
        self._behind: dict[Track, None] = {}
        self._withheld: set[Track] = set()
        self._turn: dict[int, Rank | None] = {}

    def clear(self) -> None:
        self._turns.clear()
        self._behind.clear()
        self._withheld.clear()

    @property
    def weight(self) -> int:
        """Of the highest class that waits: so much this slice counts beside others."""
        ranks = {self._rank(track) for track in self._behind if track.error is None}
        return max((WEIGHTS[rank] for rank in ranks), default=_NORMAL)

    def arrange(self, feeder: Feeder) -> None:
        """Before a request: whose turn it is, and who has to wait for another."""
        behind = [track for track in self._behind if _is_member(feeder, track)]
        turn = self._turns_of(feeder).next({self._rank(track) for track in behind})
        self._turn[feeder.node] = turn
        for track in behind:
            if self._rank(track) != turn:
                feeder.withhold(track)
                self._withheld.add(track)
            elif track in self._withheld:
                self._withheld.discard(track)
                feeder.want(track)

    def heard(self, feeder: Feeder, rows: list[Fetched]) -> None:
        """What a reply brought, by class; a turn that brought nothing of its class is no claim."""
        sizes: dict[Rank, int] = {}
        for row in rows:
            track = feeder.members.get((row.key, row.partition))
            if track is not None and row.stop > row.start:
                rank = self._rank(track)
                sizes[rank] = sizes.get(rank, 0) + row.stop - row.start
        for rank, size in sizes.items():
            self._turns_of(feeder).took(rank, size)
        turn = self._turn.get(feeder.node)
        if turn is not None and turn not in sizes:
            for track in [track for track in self._behind if self._rank(track) == turn]:
                if _is_member(feeder, track):
                    del self._behind[track]

    def read(self, track: Track, end: int) -> None:
        """How far the track is read, of what can be read."""
        if track.next_fetch < end and not track.is_read:
            self._behind[track] = None
        else:
            self._behind.pop(track, None)

    def _rank(self, track: Track) -> Rank:
        rank = self._rank_of.get(track.topic)
        if rank is None:
            rank = self._rank_of[track.topic] = self._ranks.of(track.topic).rank
        return rank

    def _turns_of(self, feeder: Feeder) -> Turns:
        return self._turns.setdefault(feeder.node, Turns())


def _is_member(feeder: Feeder, track: Track) -> bool:
    return feeder.members.get((track.key, track.partition)) is track
