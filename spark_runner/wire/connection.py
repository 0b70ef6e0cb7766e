"""One connection to one broker: versions negotiated, logged in, requests and replies in order.

A broker answers the requests of a connection in the order they were sent, so replies need no
look-up: the oldest correlation id that is open must be the next to come back.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from typing import Any, Final

from kafka.protocol.metadata import ApiVersionsRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.kafka import cleartext
from mirrors.kafka.codes import Code, failure
from mirrors.kafka.protocol.throttles import THROTTLES
from mirrors.kafka.security import ConnectionFacts
from spark_runner.wire import messages, sasl
from spark_runner.wire.stream import Buffer, Buffers, PlainStream, dial
from spark_runner.wire.tls import TlsStream

_LENGTH: Final = struct.Struct(">i")
_LONGEST_FRAME: Final = 1 << 30
# KIP-368: a broker closes a connection whose login is older than it allows. Renew well before.
_RENEW_AFTER: Final = 0.8


class Connection:
    """Blocking, for one thread. Any failure leaves it unusable: close it and open another."""

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        deadline: float,
        node: int = -1,
        buffers: Buffers | None = None,
    ) -> None:
        self.node = node
        self.host, self.port = host, port
        self._facts = facts
        self._correlation = 0
        self._open: deque[int] = deque()
        # The reply that is being read, and how much of it is there.
        self._frame: memoryview | None = None
        self._filled = 0
        self._renew_at = float("inf")
        # KIP-219: a broker answers at once and then stays deaf for the throttle time.
        self.quiet_until = 0.0
        cleartext.check(
            host, port, alias=facts.alias, mechanism=facts.mechanism, tls=facts.tls is not None
        )
        plain = dial(host, port, alias=facts.alias, deadline=deadline, buffers=buffers)
        self.where = plain.where
        self.stream: PlainStream | TlsStream = plain
        try:
            if facts.tls is not None:
                self.stream = TlsStream(plain, facts.tls, host, deadline)
            self._learn_versions(deadline)
            self._log_in(deadline)
        except BaseException:
            plain.close()
            raise

    # -- versions and login

    def _learn_versions(self, deadline: float) -> None:
        reply = None
        for version in (3, 0):
            request = ApiVersionsRequest(
                client_software_name="understudy", client_software_version="1"
            )
            reply = self._exchange(request, version, deadline)
            if reply.error_code != Code.UNSUPPORTED_VERSION:
                break
        if reply is None or reply.error_code:
            raise failure(
                reply.error_code if reply else Code.UNKNOWN, where=self.where, doing="connect"
            )
        self.versions: dict[int, tuple[int, int]] = {
            row.api_key: (row.min_version, row.max_version) for row in reply.api_keys
        }
        self.features: dict[str, int] = {
            row.name: row.max_version_level for row in reply.finalized_features or ()
        }

    def _log_in(self, deadline: float) -> None:
        lifetime = sasl.log_in(
            lambda request: self._ask(request, deadline), self._facts, self.where
        )
        if lifetime is not None:
            self._renew_at = time.monotonic() + lifetime * _RENEW_AFTER

    def renew_login(self, deadline: float) -> None:
        """Log in again when it is time to, in-band; only while no reply is awaited."""
        if time.monotonic() >= self._renew_at and not self._open:
            self._log_in(deadline)

    def version(self, key: int, least: int, most: int, what: str) -> int:
        """The newest version of a message that both sides speak."""
        low, high = self.versions.get(key, (0, -1))
        chosen = min(high, most)
        if chosen < max(low, least):
            raise KafkaRefused(
                f"Cluster {self.where}: the broker speaks {what} in versions {low} to {high}; "
                f"{least} to {most} are needed (Kafka 2.8 or newer).",
                code="version",
            )
        return chosen

    # -- the cold messages

    def call(self, request: Any, deadline: float, *, newest: int | None = None) -> Any:
        """Send a request of `messages.SPOKEN`, also as `Repeated`, and wait for its reply."""
        self.wait_out_throttle(deadline)
        self.renew_login(deadline)
        reply = self._ask(request, deadline, newest)
        self.note_throttle(getattr(reply, "throttle_time_ms", 0) or 0)
        return reply

    def _ask(self, request: Any, deadline: float, newest: int | None = None) -> Any:
        kind = request.request if isinstance(request, messages.Repeated) else request
        _, least, most = messages.SPOKEN[type(kind)]
        most = most if newest is None else min(most, newest)
        version = self.version(kind.API_KEY, least, most, kind.name)
        return self._exchange(request, version, deadline)

    def _exchange(self, request: Any, version: int, deadline: float) -> Any:
        correlation = self.next_correlation()
        if isinstance(request, messages.Repeated):
            self.send([request.encode(version, correlation)], deadline)
            return request.decode(version, self.receive(None, deadline))
        self.send([messages.encode(request, version, correlation)], deadline)
        return messages.decode(request, version, self.receive(None, deadline))

    # -- frames

    def next_correlation(self) -> int:
        """The id for the next request; it counts as sent."""
        self._correlation = self._correlation + 1 & 0x7FFFFFFF
        self._open.append(self._correlation)
        return self._correlation

    @property
    def awaited(self) -> int:
        """How many replies are still to come."""
        return len(self._open)

    def send(self, parts: list[Buffer], deadline: float) -> None:
        self.stream.send(parts, deadline)

    def receive(self, into: memoryview | None, deadline: float) -> memoryview:
        """The next reply without its length, in `into` when it fits there."""
        while (frame := self.receive_part(into, deadline, _LONGEST_FRAME)) is None:
            pass
        return frame

    def receive_part(
        self, into: memoryview | None, deadline: float, most: int
    ) -> memoryview | None:
        """As `receive`, but with the next `most` bytes of it at the most: None until it is whole.

        In between one may send, and receive on other connections.
        """
        if self._frame is None:
            self._frame, self._filled = self._begin_frame(into, deadline), 0
        frame = self._frame
        upto = min(len(frame), self._filled + most)
        self.stream.receive_into(frame[self._filled : upto], deadline)
        self._filled = upto
        if upto < len(frame):
            return None
        self._frame = None
        (correlation,) = _LENGTH.unpack_from(frame)
        if not self._open or correlation != self._open.popleft():
            raise KafkaUnavailable(
                f"Cluster {self.where}: an answer came to another question. The connection is "
                "given up.",
                code="protocol",
            )
        return frame

    def _begin_frame(self, into: memoryview | None, deadline: float) -> memoryview:
        """Where the reply that begins now belongs."""
        prefix = memoryview(bytearray(4))
        self.stream.receive_into(prefix, deadline)
        (length,) = _LENGTH.unpack(prefix)
        if not 4 <= length <= _LONGEST_FRAME:
            raise KafkaUnavailable(
                f"Cluster {self.where}: the answer is not Kafka's protocol. Check that this is "
                "the port of a Kafka listener, and its security protocol.",
                code="not_kafka",
            )
        if into is not None and length <= len(into):
            return into[:length]
        return memoryview(bytearray(length))

    def pending(self) -> bool:
        return self.stream.pending()

    def fileno(self) -> int:
        return self.stream.fileno()

    def note_throttle(self, milliseconds: int) -> None:
        if milliseconds > 0:
            self.quiet_until = time.monotonic() + milliseconds / 1000
            THROTTLES.note(self._facts.alias, f"{self.host}:{self.port}", milliseconds)

    def wait_out_throttle(self, deadline: float) -> None:
        left = min(self.quiet_until, deadline) - time.monotonic()
        if left > 0:
            time.sleep(left)

    def close(self) -> None:
        self.stream.close()
