"""Leaders of the remote partitions, and the produce connections to them.

A broker processes the requests of one connection one by one, on one processor. Where a backlog
keeps a connection full, every second partition of that broker moves to a second connection. With
little traffic one connection is better: two cost twice the requests (docs/adr/0008). A partition
moves only right after a commit, with nothing in flight, since two connections keep no order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.metadata import leader_or_error
from spark_runner.engine.model.broker_availability import LeaderlessPartitions, Outage
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.target_settings import REMEMBERED_BATCHES, ProducerSettings
from spark_runner.engine.target.produce_connection import ProduceConnection, connections_after
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import ClusterClient

_LOOKUP_S = 3.0
_RETRY_S = 0.1


class TargetLeaders:
    """Finds leaders for all partitions without one together; the others continue."""

    def __init__(
        self,
        cluster: ClusterClient,
        partitions: Iterable[Partition],
        *,
        transactional_id: str | None,
        tuning: ProducerSettings,
        newest: int = produce.MAX_VERSION,
    ) -> None:
        self.cluster = cluster
        self.alias = cluster.alias
        self.connections: dict[tuple[int, int], ProduceConnection] = {}
        self.by_key: dict[tuple[bytes, int], Partition] = {}
        self._partitions = list(partitions)
        self._transactional_id = transactional_id
        self.tuning = tuning
        self._newest = newest
        # Connections to each broker that has more than one.
        self._widths: dict[int, int] = {}
        # Brokers that refused a second connection.
        self._single: set[int] = set()
        self._leaderless = LeaderlessPartitions(self._partitions, _RETRY_S)
        self.outage = Outage(cluster.alias)

    def mark_ready(self, partition: Partition) -> None:
        connection = self.connections.get(partition.connection_id)
        if connection is not None and partition not in self._leaderless.not_before:
            connection.ready[partition] = None

    def look_up_leader(self, partition: Partition, until: float) -> None:
        """Look up the leader again at `until`; it may have moved."""
        self.forget(partition)
        self._leaderless.add([partition], until)

    def forget(self, partition: Partition) -> None:
        """Nothing more of the partition is written."""
        self._leaderless.remove(partition)
        connection = self.connections.get(partition.connection_id)
        if connection is not None:
            connection.ready.pop(partition, None)

    def wakes_at(self) -> float:
        return self._leaderless.wakes_at()

    @property
    def quiet_until(self) -> float:
        """The time until which a broker throttles, as it announced."""
        return max(
            (connection.transport.quiet_until for connection in self.connections.values()),
            default=0.0,
        )

    @property
    def writes_by_name(self) -> bool:
        """Whether topics have to be verified before a commit, since a broker knows no topic ids."""
        return any(connection.by_name for connection in self.connections.values())

    def find_leaders(self, now: float) -> list[tuple[Partition, int]]:
        """Look up missing leaders. Returns each partition with 0 or an error code."""
        waiting = self._leaderless.due(now)
        if not waiting:
            return []
        names = dict.fromkeys(partition.remote_topic for partition in waiting)
        try:
            views = self.cluster.describe(names, time.monotonic() + _LOOKUP_S)
        except KafkaUnavailable as error:
            self.outage.record_failure(now, error)
            return []
        found: list[tuple[Partition, int]] = []
        for partition in waiting:
            leader, number = leader_or_error(
                views.get(partition.remote_topic),
                partition.partition,
                partition.remote_id,
                recreated=Code.INCONSISTENT_TOPIC_ID,
            )
            if leader is not None and not self._assign(partition, leader.node, now):
                number = Code.LEADER_NOT_AVAILABLE
            found.append((partition, number))
        if not self._leaderless.not_before and not any(map(has_unwritten, self._partitions)):
            # No response will end the outage, and a later failure is another one.
            self.outage.end()
        return found

    def _assign(self, partition: Partition, node: int, now: float) -> bool:
        try:
            connection = self._connection_for(partition, node, now)
        except KafkaUnavailable as error:
            self.outage.record_failure(now, error)
            return False
        self._leaderless.remove(partition)
        self._assign_connection(partition, connection)
        return True

    def _connection_for(self, partition: Partition, node: int, now: float) -> ProduceConnection:
        number = partition.partition % self._widths.get(node, 1)
        try:
            return self._connection((node, number), now)
        except KafkaUnavailable:
            if not number:
                raise
            # All its partitions were without leader, so none is split over two connections.
            self._single.add(node)
            del self._widths[node]
            return self._connection((node, 0), now)

    def _connection(self, connection_id: tuple[int, int], now: float) -> ProduceConnection:
        connection = self.connections.get(connection_id)
        if connection is None:
            node, number = connection_id
            purpose = f"produce {number}"
            connection = self.connections[connection_id] = ProduceConnection(
                connection_id,
                self.cluster.connection(node, purpose, now + _LOOKUP_S),
                transactional_id=self._transactional_id,
                newest=self._newest,
                tuning=self.tuning,
                request_s=self.cluster.request_s,
            )
        return connection

    def _assign_connection(self, partition: Partition, connection: ProduceConnection) -> None:
        # Keep the key of an older broker: responses from it may still arrive.
        partition.assign_connection(connection.connection_id, connection.key_of(partition))
        self.by_key[partition.remote_key, partition.partition] = partition
        if partition.queue:
            connection.ready[partition] = None

    def balance_connections(self, now: float) -> None:
        """After a commit: open a second connection to overloaded brokers, or return to one."""
        by_node: dict[int, list[ProduceConnection]] = {}
        for connection in self.connections.values():
            by_node.setdefault(connection.connection_id[0], []).append(connection)
        for node, connections in by_node.items():
            before = self._widths.get(node, 1)
            few = min(self.tuning.in_flight, REMEMBERED_BATCHES)
            width = connections_after(before, connections, few, self.tuning.connections)
            for connection in connections:
                connection.reset_load()
            if width > before and node in self._single:
                continue
            if width != before and self._connect_all(node, width, now):
                self._widths[node] = width
                self._reassign(node, width)

    def _connect_all(self, node: int, width: int, now: float) -> bool:
        for number in range(width):
            try:
                self._connection((node, number), now)
            except KafkaUnavailable:
                # Keep the present ones. A retry at each commit would delay each commit.
                if number:
                    self._single.add(node)
                return False
        return True

    def _reassign(self, node: int, width: int) -> None:
        for partition in self._partitions:
            if (
                partition.connection_id[0] != node
                or partition.error
                or partition in self._leaderless.not_before
            ):
                continue
            old, new = (
                self.connections[partition.connection_id],
                self.connections[node, partition.partition % width],
            )
            if new is old or partition.in_flight or partition.to_retry:
                continue
            if partition in old.ready:
                del old.ready[partition]
                new.ready[partition] = None
            self._assign_connection(partition, new)

    def connection_lost(self, connection: ProduceConnection, now: float) -> None:
        """The connection broke or was closed: look up the leaders of its partitions again."""
        if self.connections.get(connection.connection_id) is not connection:
            return
        self.cluster.broken += 1
        self.cluster.discard(connection.transport)
        connection.in_flight.clear()
        connection.ready.clear()
        del self.connections[connection.connection_id]
        affected = [
            t
            for t in self._partitions
            if t.connection_id == connection.connection_id and t.error is None
        ]
        self._leaderless.add(affected, now)

    def restart(self) -> None:
        for connection in self.connections.values():
            self.cluster.discard(connection.transport)
        self.connections.clear()
        self._widths.clear()
        self._single.clear()
        self._leaderless.begin(
            partition for partition in self._partitions if partition.error is None
        )


def has_unwritten(partition: Partition) -> bool:
    """Whether any batch of the partition is not written yet."""
    return bool(partition.queue or partition.in_flight or partition.to_retry)
