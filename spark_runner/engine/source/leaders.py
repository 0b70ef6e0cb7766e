"""Leaders of the source partitions, and the fetch connection to each.

A partition with an error leaves its fetch session, which would repeat it in every reply. It is
fetched again after a pause, from its new leader if it moved.

An epoch connects before its predecessor ends, so that the change of epochs takes one round trip to
a distant source: that of the first fetch.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.metadata import TopicView, leader_or_error
from spark_runner.engine.model.broker_availability import LeaderlessPartitions, Outage
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.source import overlap
from spark_runner.engine.source.errors import SourceErrors
from spark_runner.engine.source.fetch_connection import FetchConnection, FetchLimits
from spark_runner.kafka_protocol.cluster import ClusterClient

_RETRY_S = 0.2
_LOOKUP_S = 3.0
# Leaders that were looked up ahead are used this long. A leader that moved since refuses the fetch.
_KNOWN_S = 10.0


class SourceLeaders:
    """One instance per slice. `stop` receives partitions that cannot be read on."""

    def __init__(
        self,
        cluster: ClusterClient,
        partitions: Iterable[Partition],
        buffers: ReceiveBuffers,
        limits: FetchLimits,
        stop: Callable[[Partition, StopReason], None],
    ) -> None:
        self._cluster = cluster
        self._buffers = buffers
        self._limits = limits
        self._stop = stop
        # By node id, and number of the connection to that node.
        self.connections: dict[tuple[int, int], FetchConnection] = {}
        self._connection_of: dict[Partition, tuple[int, int]] = {}
        # Brokers that refused a second connection.
        self._single: set[int] = set()
        self.errors = SourceErrors(cluster)
        self.outage = Outage(cluster.alias)
        self._leaderless = LeaderlessPartitions(partitions, _RETRY_S)
        # Leaders that were looked up ahead, and until when they are used.
        self._known: dict[str, TopicView] = {}
        self._known_until = 0.0

    def wakes_at(self) -> float:
        return self._leaderless.wakes_at()

    @property
    def reads_by_name(self) -> bool:
        """Whether topics have to be verified before a commit, since a broker knows no topic ids."""
        return any(connection.by_name for connection in self.connections.values())

    def connect(self, topics: Iterable[str]) -> None:
        """Look up the leaders of these topics, and connect to them, before reading begins.

        A broker that does not respond is left to `find_leaders`.
        """
        deadline = time.monotonic() + _LOOKUP_S
        with contextlib.suppress(KafkaUnavailable):
            self._known = self._cluster.describe(topics, deadline)
            self._known_until = time.monotonic() + _KNOWN_S
            leaders = [leader for view in self._known.values() for leader in view.leaders.values()]
            for node in dict.fromkeys(leader.node for leader in leaders):
                purposes = [_purpose(number) for number in range(self._limits.connections)]
                if self._limits.overlap is not None:
                    purposes += map(overlap.purpose_of, range(self._limits.overlap.connections))
                for purpose in purposes:
                    self._cluster.connection(node, purpose, deadline)

    def start_fetching(self, partition: Partition) -> None:
        """Fetch the partition from its `next_fetch` on, from its leader if that is known."""
        connection = self._connection(partition)
        if connection is not None:
            connection.add(partition)
        elif partition not in self._leaderless.not_before:
            self._leaderless.add([partition], 0.0)

    def stop_fetching(self, partition: Partition) -> None:
        """Stop fetching the partition; its leader stays known."""
        connection = self._connection(partition)
        if connection is not None:
            connection.remove(partition)

    def _connection(self, partition: Partition) -> FetchConnection | None:
        connection_id = self._connection_of.get(partition)
        return None if connection_id is None else self.connections.get(connection_id)

    def stop_reading(self, partition: Partition) -> None:
        self._leaderless.remove(partition)
        self.stop_fetching(partition)

    def look_up_leader(self, partition: Partition) -> None:
        self._leaderless.add([partition], 0.0)

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Start again at the committed positions: replies in flight are ignored."""
        for connection in self.connections.values():
            self._close(connection)
        self.connections.clear()
        self._connection_of.clear()
        self._leaderless.begin(partitions)

    def handle_error(self, partition: Partition, number: int, now: float) -> None:
        """A broker returned an error: retry, or stop the partition."""
        self.stop_reading(partition)
        stop_reason = self.errors.stop_reason_of(partition, number, now)
        if stop_reason is not None:
            self._stop(partition, stop_reason)
        else:
            self._leaderless.add([partition], now + _RETRY_S)

    def connection_lost(
        self, connection: FetchConnection, now: float, error: KafkaUnavailable | None
    ) -> None:
        """The connection broke during a request.

        The cluster may be healthy otherwise, and this broker may keep failing. So its partitions
        have a time limit.
        """
        if self.connections.get(connection.connection_id) is connection:
            self.connection_closed(connection, now)
            self.outage.record_failure(now, error)
            for partition in list(connection.members.values()):
                self.handle_error(partition, Code.NETWORK_EXCEPTION, now)

    def connection_closed(self, connection: FetchConnection, now: float) -> None:
        """The connection is closed: look up the leaders of its partitions, which may have moved."""
        if self.connections.get(connection.connection_id) is connection:
            self._close(connection)
            del self.connections[connection.connection_id]
            self._leaderless.add(connection.members.values(), now + _RETRY_S)

    def find_leaders(self, now: float) -> list[Partition]:
        """Look up missing leaders. Returns partitions that have one now.

        Each must still belong to the planned topic.
        """
        waiting = self._leaderless.due(now)
        if not waiting:
            return []
        names = dict.fromkeys(partition.topic for partition in waiting)
        try:
            views = self._views(names)
        except KafkaUnavailable as error:
            self.outage.record_failure(now, error)
            return []
        settled = []
        shares = Counter(self._connection_of.values())
        for partition in waiting:
            leader, number = leader_or_error(
                views.get(partition.topic),
                partition.partition,
                partition.source_id,
                recreated=Code.UNKNOWN_TOPIC_ID,
            )
            if leader is None:
                self.handle_error(partition, number, now)
            elif not self._assign(partition, leader.node, shares, now):
                self.handle_error(partition, Code.BROKER_NOT_AVAILABLE, now)
            else:
                self._leaderless.remove(partition)
                partition.assign_source(leader.node, leader.epoch)
                settled.append(partition)
        return settled

    def _views(self, names: dict[str, None]) -> dict[str, TopicView]:
        """The topics as the cluster reports them; once as `connect` found them."""
        known, self._known = self._known, {}
        if time.monotonic() < self._known_until and names.keys() <= known.keys():
            return known
        return self._cluster.describe(names, time.monotonic() + _LOOKUP_S)

    def _assign(
        self, partition: Partition, node: int, shares: Counter[tuple[int, int]], now: float
    ) -> bool:
        """Assign the partition to the connection of this node that has the fewest."""
        width = 1 if node in self._single else self._limits.connections
        before = self._connection_of.pop(partition, None)
        if before is not None:
            shares[before] -= 1
        number = min(range(width), key=lambda at: shares[node, at])
        if not self._connect((node, number), now):
            if not number:
                return False
            self._single.add(node)
            return self._assign(partition, node, shares, now)
        self._connection_of[partition] = node, number
        shares[node, number] += 1
        return True

    def _connect(self, connection_id: tuple[int, int], now: float) -> bool:
        if connection_id not in self.connections:
            node, number = connection_id
            try:
                connection = self._cluster.connection(node, _purpose(number), now + _LOOKUP_S)
            except KafkaUnavailable as error:
                self.outage.record_failure(now, error)
                return False
            self.connections[connection_id] = FetchConnection(
                connection_id, connection, self._limits
            )
        return True

    def _close(self, connection: FetchConnection) -> None:
        self._cluster.discard(connection.transport)
        if connection.buffer is not None:
            self._buffers.give_back(connection.buffer)
            connection.buffer = None


def _purpose(number: int) -> str:
    return f"fetch {number}" if number else "fetch"
