"""One connection to one broker: versions negotiated, logged in, requests and responses in order.

A broker responds to the requests of a connection in the order they were sent. So the next response
must have the oldest open correlation id.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol import messages, sasl, sockets
from mirrors.kafka.protocol.addresses import Address, AllAddressesFailed, connect_any
from mirrors.kafka.protocol.connection_errors import (
    CAUSES,
    ConnectionClosed,
    ConnectionFailed,
    LoginRejected,
    NotKafka,
    ServerNotVerified,
    Step,
    UnsupportedVersion,
    WrongCorrelationId,
    connection_failure,
    furthest,
)
from mirrors.kafka.protocol.sockets import Buffer, ClosedStream, SocketStream, Stream, Target
from mirrors.kafka.quotas import THROTTLES
from mirrors.kafka.security import cleartext_logins, egress
from mirrors.kafka.security.connection_settings import ConnectionFacts

_LENGTH: Final = struct.Struct(">i")
# KIP-368: a broker closes a connection whose login is older than it allows. Renew well before.
_RENEW_AFTER: Final = 0.8
_UNSUPPORTED_VERSION: Final = int(Code.UNSUPPORTED_VERSION).to_bytes(2, "big")


class _NoOtherAddress(Exception):
    """No other address of the host is to be tried."""

    def __init__(self, error: ConnectionFailed) -> None:
        super().__init__(error.step)
        self.error = error


class BrokerConnection:
    """Blocking, for one thread. Any failure but UnsupportedVersion closes it: open another one.

    - Deadlines are in seconds of time.monotonic(); each step takes at most `step_s`.
    - Raises ConnectionFailed with its step and cause, which is KafkaUnavailable or KafkaRefused.
    - Raises UnderstudyError if the deployment forbids the address, or a secret is missing.
    """

    longest_frame: ClassVar[int] = 100 << 20

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        client_id: str,
        step_s: float = float("inf"),
    ) -> None:
        self.facts, self.host, self.port = facts, host, port
        self.where = f"{facts.alias} ({host}:{port})"
        self.step: Step = "dns"
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.step_s = step_s
        self.stream: Stream = ClosedStream()
        self._client_id = client_id
        self._targets: dict[Address, Target] = {}
        self._correlation = 0
        self._open: deque[int] = deque()
        # The reply that is being read, and how much of it is there.
        self._frame: memoryview | None = None
        self._filled = 0
        self._renew_at = float("inf")
        # KIP-219: a broker answers at once and then ignores the connection for the throttle time.
        self.quiet_until = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def failure(self, cause: Exception) -> ConnectionFailed:
        """The error for a cause at this step."""
        return connection_failure(self.step, cause, self.facts, (self.host, self.port))

    @property
    def certificate(self) -> dict[str, Any]:
        """The server's certificate; empty without TLS."""
        return self.stream.certificate if isinstance(self.stream, SocketStream) else {}

    # -- what a subclass may replace

    def prepare(self, connecting: socket.socket) -> None:
        """Set options of a socket before it connects."""

    def open_stream(self, connected: socket.socket, deadline: float) -> Stream:
        """The byte stream of the connection, with TLS if configured."""
        stream = SocketStream(connected)
        if self.facts.tls is not None:
            self.step = "tls"
            try:
                stream.secure(self.facts.tls, self.host, self._step_deadline(deadline))
            except BaseException:
                stream.close()
                raise
        return stream

    def receive_more(self) -> bytes:
        """Receive more bytes of a server that is not Kafka, to identify its protocol."""
        return self.stream.receive_more() if isinstance(self.stream, SocketStream) else b""

    # -- connecting

    def connect(self, deadline: float) -> Self:
        """Run all steps up to a usable connection, with each address of the host until one
        works."""
        host, port, facts = self.host, self.port, self.facts
        tls = facts.tls is not None
        egress.check(host, port)
        cleartext_logins.check(host, port, alias=facts.alias, mechanism=facts.mechanism, tls=tls)
        self.step = "dns"
        try:
            targets = sockets.resolve(host, port, self._step_deadline(deadline))
        except OSError as error:
            raise self.failure(error) from None
        # A name may lead to several addresses, some of them dead, and some forbidden.
        targets = egress.permitted_targets(targets, port)
        self._targets = {(str(target[1][0]), int(target[1][1])): target for target in targets}
        try:
            connect_any(
                facts.alias,
                self._targets,
                self._attempt,
                deadline=deadline,
                most_s=deadline - time.monotonic(),
                failing=(ConnectionFailed,),
            )
        except AllAddressesFailed as none:
            failed = none.failures[furthest(none.failures)]
            assert isinstance(failed, ConnectionFailed)  # noqa: S101 - nothing else is caught
            raise _unwrapped(failed) from None
        except _NoOtherAddress as rejected:
            raise _unwrapped(rejected.error) from None
        self.step = "request"
        return self

    def _attempt(self, address: Address, until: float) -> None:
        try:
            self._connect_to(self._targets[address], until)
        except (*CAUSES, ValueError, UnderstudyError) as error:
            self.close()
            failed = error if isinstance(error, ConnectionFailed) else self.failure(error)
            # A login that was refused at one address of a broker is not tried at the next.
            is_final = isinstance(failed.cause, (LoginRejected, ServerNotVerified))
            raise (_NoOtherAddress(failed) if is_final else failed) from None
        except BaseException:
            self.close()
            raise

    def _connect_to(self, target: Target, deadline: float) -> None:
        self._open.clear()
        self._frame = None
        self.step = "tcp"
        connected = sockets.connect(target, self._step_deadline(deadline), self.prepare)
        self.stream = self.open_stream(connected, deadline)
        self.step = "versions"
        self._negotiate_versions(deadline)
        self._log_in(deadline)

    def _negotiate_versions(self, deadline: float) -> None:
        until = self._step_deadline(deadline)
        for version in (3, 0):
            request = ApiVersionsRequest(
                client_software_name="understudy", client_software_version="1"
            )
            self._send(request, version, until)
            frame = self.receive(None, until)
            # The refusal comes in version 0, whatever was asked in.
            if bytes(frame[4:6]) != _UNSUPPORTED_VERSION:
                break
        reply = messages.decode(request, version, frame)
        self.versions = {
            row.api_key: (row.min_version, row.max_version) for row in reply.api_keys or ()
        }
        if reply.error_code or MetadataRequest.API_KEY not in self.versions:
            raise NotKafka
        self.features = {
            row.name: row.max_version_level
            for row in getattr(reply, "finalized_features", None) or ()
        }

    def _log_in(self, deadline: float) -> None:
        if not self.facts.mechanism:
            return
        self.step = "login"
        seconds = self._step_deadline(deadline) - time.monotonic()
        lifetime = sasl.log_in(
            lambda request: self._request(request, self._step_deadline(deadline), None),
            self.facts,
            seconds,
        )
        if lifetime is not None:
            self._renew_at = time.monotonic() + lifetime * _RENEW_AFTER

    def renew_login(self, deadline: float) -> None:
        """Log in again in-band when it is due; only without requests in flight."""
        if time.monotonic() >= self._renew_at and not self._open:
            self._log_in(deadline)
            self.step = "request"

    # -- requests and replies

    def call(self, request: Any, deadline: float, *, newest: int | None = None) -> Any:
        """Send a request or `RepeatedRequest`, and wait for the response.

        The version is the newest that both sides support, at most `newest`.
        """
        until = self._step_deadline(deadline)
        self.wait_out_throttle(until)
        try:
            self.renew_login(until)
            reply = self._request(request, until, newest)
        except UnsupportedVersion as error:
            raise self.failure(error) from None
        except CAUSES as error:
            self.close()
            raise self.failure(error) from None
        except BaseException:
            self.close()
            raise
        self.note_throttle(getattr(reply, "throttle_time_ms", 0) or 0)
        return reply

    def version(self, key: int, least: int, most: int, what: str) -> int:
        """The newest version of a request that both sides support."""
        try:
            return self._version(key, least, most, what)
        except UnsupportedVersion as error:
            raise self.failure(error) from None

    def _version(self, key: int, least: int, most: int, what: str) -> int:
        low, high = self.versions.get(key, (0, -1))
        chosen = min(high, most)
        if chosen < max(low, least):
            raise UnsupportedVersion(what, (low, high), (least, most))
        return chosen

    def _request(self, request: Any, until: float, newest: int | None) -> Any:
        kind = request.request if isinstance(request, messages.RepeatedRequest) else request
        least, most = messages.supported_versions(kind)
        most = most if newest is None else min(most, newest)
        version = self._version(kind.API_KEY, least, most, type(kind).__name__)
        self._send(request, version, until)
        frame = self.receive(None, until)
        if isinstance(request, messages.RepeatedRequest):
            return request.decode(version, frame)
        return messages.decode(request, version, frame)

    def _send(self, request: Any, version: int, until: float) -> None:
        correlation = self.next_correlation()
        if isinstance(request, messages.RepeatedRequest):
            self.send([request.encode(version, correlation, self._client_id)], until)
        else:
            self.send([messages.encode(request, version, correlation, self._client_id)], until)

    def _step_deadline(self, deadline: float) -> float:
        return min(deadline, time.monotonic() + self.step_s)

    # -- frames

    def next_correlation(self) -> int:
        """The id for the next request; it counts as sent."""
        self._correlation = self._correlation + 1 & 0x7FFFFFFF
        self._open.append(self._correlation)
        return self._correlation

    @property
    def in_flight_requests(self) -> int:
        """The number of requests without a response."""
        return len(self._open)

    def send(self, parts: list[Buffer], deadline: float) -> None:
        self.stream.send(parts, deadline)

    def receive(self, into: memoryview | None, deadline: float) -> memoryview:
        """The next response without its length, in `into` if it fits there."""
        while (frame := self.receive_part(into, deadline, self.longest_frame)) is None:
            pass
        return frame

    def receive_part(
        self, into: memoryview | None, deadline: float, most: int
    ) -> memoryview | None:
        """Like `receive`, but receive at most the next `most` bytes. Returns None until the
        response is complete.

        Between two calls the caller may send, and receive on other connections.
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
            raise self.failure(WrongCorrelationId())
        return frame

    def _begin_frame(self, into: memoryview | None, deadline: float) -> memoryview:
        """The memory for the response that begins now."""
        prefix = memoryview(bytearray(4))
        try:
            self.stream.receive_into(prefix, deadline)
        except ConnectionClosed as closed:
            if closed.received:
                raise self.failure(NotKafka(closed.received)) from None
            raise
        (length,) = _LENGTH.unpack(prefix)
        if not 4 <= length <= self.longest_frame:
            raise self.failure(NotKafka(bytes(prefix) + self.receive_more()))
        if into is not None and length <= len(into):
            return into[:length]
        return memoryview(bytearray(length))

    def pending(self) -> bool:
        return self.stream.pending()

    def fileno(self) -> int:
        return self.stream.fileno()

    # -- quotas

    def note_throttle(self, milliseconds: int) -> None:
        if milliseconds > 0:
            self.quiet_until = time.monotonic() + milliseconds / 1000
            THROTTLES.record(self.facts.alias, f"{self.host}:{self.port}", milliseconds)

    def wait_out_throttle(self, deadline: float) -> None:
        left = min(self.quiet_until, deadline) - time.monotonic()
        if left > 0:
            time.sleep(left)

    def close(self) -> None:
        self.stream.close()


def _unwrapped(failed: ConnectionFailed) -> UnderstudyError:
    """An error of this program that ended a step is raised as it is."""
    return failed.cause if isinstance(failed.cause, UnderstudyError) else failed
