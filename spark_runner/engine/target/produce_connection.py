"""One target broker as a slice writes it: a connection, the requests in flight, who is ready."""

from __future__ import annotations

from collections import deque

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.target.in_flight import BatchesInFlight, SendWindow, by_topic
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import RECEIVE_S
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.request_header import PRODUCE


class ProduceConnection:
    """Blocking; raises KafkaUnavailable when the connection breaks, and is of no use after that."""

    def __init__(
        self,
        connection_id: tuple[int, int],
        link: Connection,
        *,
        transactional_id: str | None,
        newest: int,
        tuning: ProducerSettings,
        request_s: float,
    ) -> None:
        # The broker, and which of our pipes to it this is.
        self.connection_id = connection_id
        self._request_s = request_s
        self._transactional = transactional_id is not None
        self.link = link
        self.in_flight: deque[BatchesInFlight] = deque()
        # Of each its bytes, and when it was sent.
        self._sent: deque[tuple[int, float]] = deque()
        self._max_in_flight, self._request_bytes = tuning.in_flight, tuning.request_bytes
        # What was built anew flies beside the buffers: no more of it than they hold.
        self._window = SendWindow(min(tuning.in_flight * tuning.request_bytes, tuning.memory_bytes))
        self.ready: dict[Partition, None] = {}
        self.heard_at = 0.0
        # How long the last reply took.
        self.took_s = 0.0
        self.reset_load()
        version = link.version(PRODUCE, produce.LEAST, newest, "Produce")
        self._writer = produce.RequestWriter(
            version, transactional_id, timeout_ms=tuning.request_timeout_ms
        )

    @property
    def by_name(self) -> bool:
        """An old broker: a topic made anew under the same name is not told apart by it."""
        return self._writer.version < produce.BY_ID

    @property
    def adds_partitions_itself(self) -> bool:
        """Whether a produce adds its partition to the transaction (KIP-890), or there is none."""
        return self._writer.version >= produce.ADDS_BY_ITSELF or not self._transactional

    def key_of(self, partition: Partition) -> bytes:
        return produce.name_key(partition.remote_topic) if self.by_name else partition.remote_id

    def may_send(self, now: float) -> bool:
        """Whether something is ready, there is room for it, and the broker listens."""
        return (
            bool(self.ready)
            and now >= self.link.quiet_until
            and (
                not self.in_flight or (len(self.in_flight) < self._max_in_flight and self.room > 0)
            )
        )

    @property
    def room(self) -> int:
        """How many bytes the next request should hold."""
        return min(self._request_bytes, self._window.room)

    def reset_load(self) -> None:
        """Forget how busy it has been."""
        self.was_full = False
        self.most_in_flight = 0

    def send(self, batches: BatchesInFlight, now: float) -> None:
        """One request with one batch of each of these tracks."""
        topics, size = by_topic(batches)
        link = self.link
        is_first = not self.in_flight
        # Before anything can fail: what is launched is waited for, or comes back.
        self.in_flight.append(batches)
        self._sent.append((size, now))
        self._window.sent(size)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        if is_first:
            link.renew_login(now + self._request_s)
            self.heard_at = now
        parts = self._writer.parts(link.next_correlation(), topics)
        link.send(parts, now + self._request_s)

    def is_overdue(self, now: float) -> bool:
        """No reply for long: the connection is of no use any more.

        While a quota makes the broker deaf, as it said, none can come.
        """
        since = max(self.heard_at, self.link.quiet_until)
        return bool(self.in_flight) and now - since > self._request_s

    def read(self, now: float) -> tuple[BatchesInFlight, list[produce.Answer]]:
        """The reply to the oldest request in flight."""
        frame = self.link.receive(None, now + RECEIVE_S)
        throttle, answers = produce.read_reply(frame, self._writer.version)
        self.link.note_throttle(throttle)
        size, sent_at = self._sent.popleft()
        self.took_s = now - sent_at
        self._window.answered(size, throttle / 1000, self.took_s)
        self.heard_at = now
        return self.in_flight.popleft(), answers


def connections_after(width: int, connections: list[ProduceConnection], in_flight: int) -> int:
    """How many pipes a broker should have, which has `width`, after what these went through.

    Two once more was ready than may fly; one again when all that flew would have fitted into it.
    """
    if any(connection.was_full for connection in connections):
        return 2
    return 1 if sum(connection.most_in_flight for connection in connections) <= in_flight else width
