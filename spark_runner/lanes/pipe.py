"""One target broker as a slice writes it: a connection, the requests in flight, who is ready."""

from __future__ import annotations

from collections import deque

from spark_runner.lanes.parcel import Parcel
from spark_runner.lanes.track import Track
from spark_runner.wire import produce
from spark_runner.wire.cluster import RECEIVE_S, REQUEST_S
from spark_runner.wire.connection import Connection
from spark_runner.wire.messages import PRODUCE
from spark_runner.wire.stream import Buffer

# More than five per partition and the broker no longer knows a batch that is sent again (KIP-98).
MOST_IN_FLIGHT = 5
# A broker takes 100 MB (socket.request.max.bytes); smaller ones overlap better.
REQUEST_BYTES = 8 << 20

Flight = dict[Track, Parcel]


class Pipe:
    """Blocking; raises KafkaUnavailable when the connection breaks, and is of no use after that."""

    def __init__(
        self,
        node: int,
        link: Connection,
        *,
        transactional_id: str | None,
        newest: int,
        timeout_ms: int,
    ) -> None:
        self.node = node
        self.link = link
        self.flights: deque[Flight] = deque()
        self.ready: dict[Track, None] = {}
        self.heard_at = 0.0
        version = link.version(PRODUCE, produce.LEAST, newest, "Produce")
        self._writer = produce.RequestWriter(version, transactional_id, timeout_ms=timeout_ms)

    @property
    def by_name(self) -> bool:
        """An old broker: a topic made anew under the same name is not told apart by it."""
        return self._writer.version < produce.BY_ID

    @property
    def adds_by_itself(self) -> bool:
        """Whether a produce adds its partition to the transaction (KIP-890)."""
        return self._writer.version >= produce.ADDS_BY_ITSELF

    def key_of(self, track: Track) -> bytes:
        return produce.name_key(track.remote_topic) if self.by_name else track.remote_id

    def send(self, flight: Flight, now: float) -> None:
        """One request with one batch of each of these tracks."""
        topics: dict[bytes, list[tuple[bytes, Buffer]]] = {}
        for track, parcel in flight.items():
            assert parcel.view is not None  # noqa: S101 - a stamped parcel has one
            rows = topics.get(track.remote_key)
            if rows is None:
                rows = topics[track.remote_key] = []
            rows.append((track.index, parcel.view))
        link = self.link
        if not self.flights:
            link.renew_login(now + REQUEST_S)
            self.heard_at = now
        self.flights.append(flight)
        link.send(
            self._writer.parts(link.next_correlation(), list(topics.items())), now + REQUEST_S
        )

    def read(self, now: float) -> tuple[Flight, list[produce.Answer]]:
        """The reply to the oldest request in flight."""
        frame = self.link.receive(None, now + RECEIVE_S)
        throttle, answers = produce.read_reply(frame, self._writer.version)
        self.link.note_throttle(throttle)
        self.heard_at = now
        return self.flights.popleft(), answers
