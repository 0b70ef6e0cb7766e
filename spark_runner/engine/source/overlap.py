"""Overlapping fetches: live records of a distant source arrive sooner, and some bytes twice.

With one fetch in flight a record waits up to a round trip for the next one. So further connections
to the broker fetch the same partitions from the next expected offset, one after the other.

- Only while a partition is caught up, records arrive, and the budget of repeated bytes lasts.
- The broker answers these fetches at once. Only the partition's own connection waits for records.
- Errors of these fetches are ignored: the partition's own connection reports them.
- Requests carry the leader epoch, so all replies are from one version of the log. Of a reply that
  began earlier, only what follows the last batch that was read is used, if that batch has the same
  leader epoch here.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.flows.bandwidth import TokenBucket
from spark_runner.engine.batches.header_scan import is_abort_marker, min_size, read_headers
from spark_runner.engine.model.distance import Overlap
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.source.fetch_connection import FetchConnection, FetchLimits
from spark_runner.kafka_protocol.batch_header import CONTROL
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.fetch import PartitionData

# A connection that failed, and a broker with a quota, get no overlapping fetches for this long.
_PAUSE_S = 30.0
_CONNECT_S = 3.0
_MOST_BYTES = 1 << 20
# After the last record, overlapping fetches continue for this many round trips.
_QUIET_ROUND_TRIPS = 2


def purpose_of(number: int) -> str:
    """The purpose of a connection in the cluster's pool."""
    return f"overlap {number}"


def trim(row: PartitionData, memory: memoryview, expected: int, epoch: int) -> PartitionData | None:
    """The part of a reply from `expected` on; None if it has no batch there, or another history.

    `epoch` is the leader epoch of the last batch that was read. Aborted transactions that end in
    the dropped part are dropped too: the next transaction of their producer may be committed.
    """
    at, last_epoch = row.start, None
    aborted = row.aborted
    for header in read_headers(memory, row.start, row.stop):
        if header.size < min_size(header):
            return None
        if header.last_offset >= expected:
            return row._replace(start=at, aborted=aborted) if last_epoch == epoch else None
        if (
            aborted
            and header.attributes & CONTROL
            and header.records
            and is_abort_marker(memory, at)
        ):
            aborted = tuple(
                (first, producer)
                for first, producer in aborted
                if producer != header.producer_id or first > header.last_offset
            )
        last_epoch = header.leader_epoch
        at += header.size
    return None


class OverlappingFetches:
    """The further connections to all source brokers; one instance per slice.

    `now` is in seconds of the monotonic clock.
    """

    def __init__(
        self, cluster: ClusterClient, buffers: ReceiveBuffers, limits: FetchLimits, overlap: Overlap
    ) -> None:
        self._cluster, self._buffers, self._overlap = cluster, buffers, overlap
        self._limits = dataclasses.replace(
            limits, max_bytes=min(limits.max_bytes, _MOST_BYTES), max_wait_ms=0, min_bytes=1
        )
        self._budget = TokenBucket(overlap.bytes_s, time.monotonic())
        # By node: its connections, its partitions, and until when records are expected.
        self._connections: dict[int, list[FetchConnection]] = {}
        self._members: dict[int, dict[Partition, None]] = {}
        self._active_until: dict[int, float] = {}
        self._send_at: dict[int, float] = {}
        self._node_of: dict[Partition, int] = {}

    def connections(self) -> Iterable[FetchConnection]:
        return [item for connections in self._connections.values() for item in connections]

    def has(self, connection: FetchConnection) -> bool:
        return connection in self._connections.get(connection.connection_id[0], ())

    # -- the partitions

    def update(self, partition: Partition, now: float, *, has_moved: bool) -> None:
        """A caught-up partition was read up to its `next_fetch`."""
        node = partition.source_node
        if self._node_of.get(partition) != node:
            self.remove(partition)
            self._node_of[partition] = node
            self._members.setdefault(node, {})[partition] = None
            has_moved = True
        if has_moved:
            round_trip = self._overlap.spacing_s * self._overlap.connections
            self._active_until[node] = now + _QUIET_ROUND_TRIPS * round_trip
            for connection in self._connections.get(node, ()):
                connection.add(partition)

    def remove(self, partition: Partition) -> None:
        """The partition is behind, or not read any more. Replies in flight are ignored for it."""
        node = self._node_of.pop(partition, None)
        if node is not None:
            del self._members[node][partition]
            for connection in self._connections.get(node, ()):
                connection.remove(partition)

    def restart(self) -> None:
        """Drop everything; replies in flight are ignored."""
        for connection in self.connections():
            self._close(connection)
        self._connections.clear()
        self._members.clear()
        self._node_of.clear()
        self._active_until.clear()
        self._send_at.clear()

    # -- the requests

    def wakes_at(self, now: float) -> float:
        """The next time at which a request is due."""
        moments = [
            max(self._send_at.get(node, 0.0), self._budget.opens_at(now))
            for node, until in self._active_until.items()
            if now < until and self._has_idle(node, now) and self._buffers.has_free
        ]
        return min((moment for moment in moments if moment > now), default=float("inf"))

    def send_requests(self, now: float) -> None:
        """Send at most one request to each broker."""
        if self._budget.opens_at(now) > now:
            return
        for node, until in self._active_until.items():
            if now >= until or now < self._send_at.get(node, 0.0) or not self._members.get(node):
                continue
            if node not in self._connections:
                self._connect(node, now)
            for connection in self._connections.get(node, ()):
                if connection.buffer is None and now >= connection.retry_at:
                    self._send(connection, now)
                    break

    def record_repeated(self, size: int, now: float) -> None:
        """Count bytes that were read before."""
        if size:
            self._budget.take(size, now)

    def answered(self, connection: FetchConnection) -> None:
        """A reply is complete. A quota that the broker announces is for what is read once."""
        if connection.transport.quiet_until > connection.sent_at:
            self._send_at[connection.connection_id[0]] = connection.sent_at + _PAUSE_S

    def lost(self, connection: FetchConnection, now: float) -> None:
        """The connection broke or was closed. All those to its broker are opened again later."""
        node = connection.connection_id[0]
        for item in self._connections.pop(node, ()):
            self._close(item)
        self._send_at[node] = now + _PAUSE_S

    def give_up_overdue(self, now: float) -> None:
        for connection in list(self.connections()):
            if connection.is_overdue(now, self._limits.request_s):
                self.lost(connection, now)

    def _has_idle(self, node: int, now: float) -> bool:
        connections = self._connections.get(node)
        if connections is None:
            return True
        return any(item.buffer is None and now >= item.retry_at for item in connections)

    def _connect(self, node: int, now: float) -> None:
        """Open the connections, or take those that were opened before the epoch began."""
        found: list[FetchConnection] = []
        try:
            for number in range(self._overlap.connections):
                transport = self._cluster.connection(node, purpose_of(number), now + _CONNECT_S)
                connection_id = node, self._limits.connections + number
                found.append(FetchConnection(connection_id, transport, self._limits))
        except KafkaUnavailable:
            for connection in found:
                self._close(connection)
            self._send_at[node] = now + _PAUSE_S
            return
        self._connections[node] = found
        for connection in found:
            for partition in self._members[node]:
                connection.add(partition)

    def _send(self, connection: FetchConnection, now: float) -> None:
        buffer = self._buffers.take()
        if buffer is None:
            return
        self._send_at[connection.connection_id[0]] = now + self._overlap.spacing_s
        try:
            connection.send_fetch(
                buffer,
                now,
                max_bytes=self._limits.max_bytes,
                max_wait_ms=self._limits.max_wait_ms,
            )
        except KafkaUnavailable:
            self.lost(connection, now)

    def _close(self, connection: FetchConnection) -> None:
        self._cluster.discard(connection.transport)
        if connection.buffer is not None:
            self._buffers.give_back(connection.buffer)
            connection.buffer = None
