"""A fetch connection to one source broker: its fetch session and the request in flight."""

from __future__ import annotations

import dataclasses
import time

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import name_of
from mirrors.kafka.error_table import SESSION_LOST
from spark_runner.engine.model.distance import Overlap
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer, oversized_buffer
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.cluster import RECEIVE_S
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.produce import name_key
from spark_runner.kafka_protocol.request_header import FETCH

_FIRST = 256 << 10
# A smaller response does not show the connection's speed, and costs as much as one of this size.
_MIN_SIZE = 64 << 10
_LONG_S = 0.5


class FetchSize:
    """The reply size that one connection requests; adapts to its speed. A new connection starts
    again."""

    __slots__ = ("_most", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(_FIRST, most)

    def record_response(self, size: int, seconds: float) -> None:
        """A reply of `size` bytes took `seconds` once it had begun to arrive."""
        if size < _MIN_SIZE:
            return
        if seconds > _LONG_S:
            self.size = max(
                min(self.size, int(size * _LONG_S / seconds)), min(_MIN_SIZE, self._most)
            )
        elif seconds <= _LONG_S / 2 and 2 * size >= self.size:
            self.size = min(2 * self.size, self._most)


_SESSION_RETRY_S = 0.1
# The default quota window of brokers is eleven seconds.
_QUOTA_WINDOW_S = 12.0
# A reply is read in parts, and the target gets requests in between. Requests in flight last about 4
# ms; reading 16 MB takes twice as long.
_PART = 4 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """Limits of fetch requests."""

    max_bytes: int
    partition_bytes: int
    # A partition with more unsent bytes is not fetched until the target has caught up.
    queue_bytes: int
    # Timeout of other requests.
    request_s: float
    max_wait_ms: int = 500
    min_bytes: int = 1
    # Connections to each broker.
    connections: int = 1
    isolation: int = fetch.READ_COMMITTED
    newest: int = fetch.MAX_VERSION
    # Fetches of live records between those of a distant source's own connections.
    overlap: Overlap | None = None


def throttled_s(announced_s: float, empty_throttled: int) -> float:
    """How long to pause after a throttled response, given the number of empty ones in a row.

    A broker answers a fetch with nothing while a quota is exceeded (KIP-219), and each request
    counts against the quota: polling would use up a small request quota. So the pause doubles,
    until all earlier use has left the quota window.
    """
    return max(
        announced_s, min(announced_s * float(1 << min(empty_throttled, 10)), _QUOTA_WINDOW_S)
    )


class FetchConnection:
    """Blocking. Raises KafkaUnavailable when the connection breaks, and is unusable then."""

    def __init__(
        self, connection_id: tuple[int, int], transport: Connection, limits: FetchLimits
    ) -> None:
        # Node id, and number of the connection to that node.
        self.connection_id = connection_id
        self.transport = transport
        self.members: dict[tuple[bytes, int], Partition] = {}
        self.buffer: ReceiveBuffer | None = None
        # Partitions left during a request. Its reply is ignored for them: they may be read again
        # from a lower offset by then, and the reply would leave a hole.
        self._left: set[tuple[bytes, int]] = set()
        # Offsets of the last request, and of the next one where they differ.
        self._asked: dict[tuple[bytes, int], int] = {}
        self._next: dict[tuple[bytes, int], int] = {}
        self.sent_at = 0.0
        # When the last part of an incomplete reply arrived; 0 before the first part.
        self._last_received_at = 0.0
        self.retry_at = 0.0
        # Whether the last reply left records unread.
        self.is_behind = False
        # Duration of the last request until its reply began.
        self.took_s = 0.0
        self._empty_throttled = 0
        # Time spent so far on reading the current reply.
        self._reading_s = 0.0
        self._fetch_size = FetchSize(limits.max_bytes)
        self._most_bytes = limits.max_bytes
        # Each of several connections carries its share of the rate.
        self._part = _PART // limits.connections
        self._partition_bytes = limits.partition_bytes
        self._request_s = limits.request_s
        self._session = fetch.FetchSession(
            transport.version(FETCH, fetch.MIN_VERSION, limits.newest, "Fetch"),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation=limits.isolation,
        )

    @property
    def by_name(self) -> bool:
        """Whether the broker knows topics by name only and cannot detect a recreated topic."""
        return self._session.version < fetch.TOPIC_ID_VERSION

    @property
    def is_receiving(self) -> bool:
        """Whether a part of the reply is here, and more is to come."""
        return self._last_received_at > 0

    @property
    def asked_bytes(self) -> int:
        """Size of the replies that it asks for."""
        return self._fetch_size.size

    @property
    def most_bytes(self) -> int:
        """The largest reply that it may ask for."""
        return self._most_bytes

    def add(self, partition: Partition) -> None:
        """Read the partition from its `next_fetch` on, with the next request."""
        key = name_key(partition.topic) if self.by_name else partition.source_id
        partition.identify_source(key)
        self.members[partition.source_key, partition.partition] = partition
        self._next[partition.source_key, partition.partition] = partition.next_fetch
        self._session.add(
            fetch.FetchPartition(
                partition.source_key,
                partition.partition,
                partition.next_fetch,
                partition.source_epoch,
                partition.read_epoch,
                self._partition_bytes,
            )
        )

    def remove(self, partition: Partition) -> None:
        if self.members.pop((partition.source_key, partition.partition), None) is not None:
            if self.buffer is not None:
                self._left.add((partition.source_key, partition.partition))
            self._session.remove(partition.source_key, partition.partition)

    def suspend(self, partition: Partition) -> None:
        """Omit the partition from the next requests; it stays assigned to this connection."""
        self._session.remove(partition.source_key, partition.partition)

    def send_fetch(
        self, buffer: ReceiveBuffer, now: float, *, max_bytes: int, max_wait_ms: int
    ) -> None:
        """Send the next request; its reply of at most `max_bytes` goes to the buffer."""
        self._session.limit(
            max_bytes=min(max_bytes, self._fetch_size.size), max_wait_ms=max_wait_ms
        )
        self.buffer = buffer
        self.sent_at = now
        self._last_received_at = 0.0
        self._asked.update(self._next)
        self._next.clear()
        until = now + self._request_s
        self.transport.renew_login(until)
        self.transport.send([self._session.request(self.transport.next_correlation())], until)

    def asked_offset(self, row: fetch.PartitionData) -> int:
        """The offset from which the last request asked for this partition."""
        return self._asked[row.key, row.partition]

    def is_overdue(self, now: float, patience: float) -> bool:
        """Whether no reply came for this many seconds, or the rest of one is overdue."""
        if self.buffer is None:
            return False
        if self._last_received_at:
            return now - self._last_received_at > RECEIVE_S
        return now - self.sent_at > patience

    def read(self, now: float) -> tuple[ReceiveBuffer, list[fetch.PartitionData]] | None:
        """Read the next part of the reply; None while more is to come.

        Returns the buffer that holds the records.
        """
        buffer = self.buffer
        assert buffer is not None  # noqa: S101 - the loop reads only what was asked for
        began = time.monotonic()
        if not self._last_received_at:
            self.took_s = began - self.sent_at
        frame = self.transport.receive_part(buffer.view, now + RECEIVE_S, self._part)
        self._reading_s += time.monotonic() - began
        if frame is None:
            self._last_received_at = time.monotonic()
            return None
        self._fetch_size.record_response(len(frame), self._reading_s)
        self._reading_s = 0.0
        session, reply = fetch.read_reply(frame, self._session.version)
        if reply.error and reply.error not in SESSION_LOST:
            raise KafkaUnavailable(
                f"Cluster {self.transport.where}: the broker rejects each fetch with "
                f"{name_of(reply.error)}. See the broker's log.",
                code="fetch_refused",
            )
        self.buffer = None
        if not buffer.owns(frame):
            buffer = oversized_buffer(frame, buffer)
        self.transport.note_throttle(reply.throttle_ms)
        wait = throttled_s(reply.throttle_ms / 1000, self._empty_throttled)
        self.retry_at = max(self.transport.quiet_until, now + wait)
        self._empty_throttled = (
            self._empty_throttled + 1 if reply.throttle_ms and not reply.partitions else 0
        )
        left, self._left = self._left, set()
        if self._session.answered(reply.error, session):
            return buffer, [row for row in reply.partitions if (row.key, row.partition) not in left]
        self.retry_at = max(self.retry_at, now + _SESSION_RETRY_S)
        return buffer, []
