"""A produce connection to one target broker: requests in flight, partitions ready to send."""

from __future__ import annotations

import select
from collections import deque

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.target.in_flight import BatchesInFlight, SendWindow, by_topic
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import RECEIVE_S
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.request_header import PRODUCE


class ProduceConnection:
    """Blocking. Raises KafkaUnavailable when the connection breaks, and is unusable then."""

    def __init__(
        self,
        connection_id: tuple[int, int],
        transport: Connection,
        *,
        transactional_id: str | None,
        newest: int,
        tuning: ProducerSettings,
        request_s: float,
    ) -> None:
        # Node id, and number of the connection to that node.
        self.connection_id = connection_id
        self._request_s = request_s
        self._transactional = transactional_id is not None
        self.transport = transport
        self.in_flight: deque[BatchesInFlight] = deque()
        # Size and send time of each request in flight.
        self._sent: deque[tuple[int, float]] = deque()
        self._max_in_flight, self._request_bytes = tuning.in_flight, tuning.request_bytes
        # Rebuilt batches occupy memory beside the buffers, at most as much as those.
        most = min(tuning.in_flight * tuning.request_bytes, tuning.memory_bytes)
        most = min(most, tuning.window_bytes or most)
        self._window = SendWindow(most, is_far=tuning.is_far)
        self._is_far = tuning.is_far
        self.ready: dict[Partition, None] = {}
        # Whether a request waits for room in the socket's send buffer.
        self.is_blocked = False
        self._writable = select.poll()
        self._writable.register(transport.stream.fileno(), select.POLLOUT)
        self.last_response_at = 0.0
        # Duration of the last request.
        self.took_s = 0.0
        self.reset_load()
        version = transport.version(PRODUCE, produce.MIN_VERSION, newest, "Produce")
        self._writer = produce.RequestWriter(
            version, transactional_id, timeout_ms=tuning.request_timeout_ms
        )

    @property
    def by_name(self) -> bool:
        """Whether the broker knows topics by name only and cannot detect a recreated topic."""
        return self._writer.version < produce.TOPIC_ID_VERSION

    @property
    def adds_partitions_itself(self) -> bool:
        """Whether Produce adds the partition to the transaction (KIP-890), or there is no
        transaction."""
        return self._writer.version >= produce.ADDS_PARTITIONS_VERSION or not self._transactional

    def key_of(self, partition: Partition) -> bytes:
        return produce.name_key(partition.remote_topic) if self.by_name else partition.remote_id

    def may_send(self, now: float) -> bool:
        """Whether a partition is ready, the window has room, and the broker does not throttle.

        To a distant broker the socket must have room too: a request that waits there would block
        the loop, and the other connections would run dry meanwhile.
        """
        self.is_blocked = False
        if not self.ready or now < self.transport.quiet_until:
            return False
        if not self.in_flight:
            return True
        if len(self.in_flight) >= self._max_in_flight or self.room <= 0:
            return False
        self.is_blocked = self._is_far and not self._writable.poll(0)
        return not self.is_blocked

    @property
    def is_full(self) -> bool:
        """Whether another request has to wait for a response."""
        if len(self.in_flight) >= self._max_in_flight or self.is_blocked:
            return True
        return self._is_far and bool(self.in_flight) and self.room <= 0

    @property
    def room(self) -> int:
        """Target size of the next request in bytes."""
        return min(self._request_bytes, self._window.room)

    @property
    def has_most_requests(self) -> bool:
        """Whether no more requests may be in flight."""
        return len(self.in_flight) >= self._max_in_flight

    @property
    def is_slow(self) -> bool:
        """Whether requests to a distant broker wait longer than they travel."""
        return self._window.is_queued(self.took_s)

    @property
    def window_bytes(self) -> int:
        """How many bytes may be in flight now."""
        return self._window.size

    def take_peak_bytes(self) -> int:
        """The most bytes that were in flight since the last call."""
        return self._window.take_peak()

    def reset_load(self) -> None:
        """Reset the load statistics."""
        self.was_full = False
        self.most_in_flight = 0

    def send(self, batches: BatchesInFlight, now: float) -> None:
        """Send one request with one batch of each partition."""
        topics, size = by_topic(batches)
        transport = self.transport
        is_first = not self.in_flight
        # Register first: if sending fails, the batches are retried.
        self.in_flight.append(batches)
        self._sent.append((size, now))
        self._window.sent(size)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        if is_first:
            transport.renew_login(now + self._request_s)
            self.last_response_at = now
        parts = self._writer.parts(transport.next_correlation(), topics)
        transport.send(parts, now + self._request_s)

    def is_overdue(self, now: float) -> bool:
        """Whether the response is overdue. Time that the broker announced as throttling is not
        counted."""
        since = max(self.last_response_at, self.transport.quiet_until)
        return bool(self.in_flight) and now - since > self._request_s

    def read(self, now: float) -> tuple[BatchesInFlight, list[produce.ProduceResult]]:
        """Read the response to the oldest request in flight."""
        frame = self.transport.receive(None, now + RECEIVE_S)
        throttle, answers = produce.read_reply(frame, self._writer.version)
        self.transport.note_throttle(throttle)
        size, sent_at = self._sent.popleft()
        self.took_s = now - sent_at
        self._window.answered(size, throttle / 1000, self.took_s)
        self.last_response_at = now
        return self.in_flight.popleft(), answers


def connections_after(
    width: int, connections: list[ProduceConnection], in_flight: int, most: int = 2
) -> int:
    """The number of connections that a broker should have, given their load.

    `most` after a connection was full; one again when one could have carried all requests.
    """
    if any(connection.was_full for connection in connections):
        return most
    return 1 if sum(connection.most_in_flight for connection in connections) <= in_flight else width
