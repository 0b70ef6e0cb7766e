"""Reads partitions of higher priority classes first, one class per request.

While partitions of several classes have a backlog, only those of one class stay in the fetch
session. Partitions without a backlog always stay in it, so that new records arrive at once. So
nothing waits while there is no choice to make.
"""

from __future__ import annotations

from mirrors.domain.topics.priority import WEIGHTS, FetchOrder, PriorityRules, Rank
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.kafka_protocol.fetch import PartitionData

_NORMAL = WEIGHTS["normal"]


class ReadPriority:
    """One instance per slice; flows without priority classes have none."""

    def __init__(self, ranks: PriorityRules) -> None:
        self._ranks = ranks
        self._rank_of: dict[str, Rank] = {}
        self._orders: dict[tuple[int, int], FetchOrder] = {}
        # Partitions with a backlog, and partitions omitted from the session.
        self._behind: dict[Partition, None] = {}
        self._suspended: set[Partition] = set()
        self._turn: dict[tuple[int, int], Rank | None] = {}

    def clear(self) -> None:
        self._orders.clear()
        self._behind.clear()
        self._suspended.clear()

    @property
    def weight(self) -> int:
        """Weight of the slice beside others: that of its highest class with a backlog."""
        ranks = {self._rank(partition) for partition in self._behind if partition.error is None}
        return max((WEIGHTS[rank] for rank in ranks), default=_NORMAL)

    def select_partitions(self, connection: FetchConnection) -> None:
        """Before a request: choose the class, and omit backlogs of the others."""
        behind = [partition for partition in self._behind if _is_member(connection, partition)]
        turn = self._order_of(connection).next({self._rank(partition) for partition in behind})
        self._turn[connection.connection_id] = turn
        for partition in behind:
            if self._rank(partition) != turn:
                connection.suspend(partition)
                self._suspended.add(partition)
            elif partition in self._suspended:
                self._suspended.discard(partition)
                connection.add(partition)

    def record_reply(self, connection: FetchConnection, rows: list[PartitionData]) -> None:
        """Count the reply's bytes by class. A class without bytes has no backlog."""
        sizes: dict[Rank, int] = {}
        for row in rows:
            partition = connection.members.get((row.key, row.partition))
            if partition is not None and row.stop > row.start:
                rank = self._rank(partition)
                sizes[rank] = sizes.get(rank, 0) + row.stop - row.start
        for rank, size in sizes.items():
            self._order_of(connection).took(rank, size)
        turn = self._turn.get(connection.connection_id)
        if turn is not None and turn not in sizes:
            for partition in [
                partition for partition in self._behind if self._rank(partition) == turn
            ]:
                if _is_member(connection, partition):
                    del self._behind[partition]

    def read(self, partition: Partition, end: int) -> None:
        """Note whether the partition has a backlog: it is not read up to `end`."""
        if partition.next_fetch < end and not partition.is_read:
            self._behind[partition] = None
        else:
            self._behind.pop(partition, None)

    def _rank(self, partition: Partition) -> Rank:
        rank = self._rank_of.get(partition.topic)
        if rank is None:
            rank = self._rank_of[partition.topic] = self._ranks.of(partition.topic).rank
        return rank

    def _order_of(self, connection: FetchConnection) -> FetchOrder:
        return self._orders.setdefault(connection.connection_id, FetchOrder())


def _is_member(connection: FetchConnection, partition: Partition) -> bool:
    return connection.members.get((partition.source_key, partition.partition)) is partition
