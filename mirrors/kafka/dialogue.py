"""One blocking connection to one broker, step by step: name, TCP, TLS, versions, login, questions.

Where librdkafka hides the cause of a failure in its log, this names the step and the exact cause.
kafka-python's message classes are the codec; its own client is not used, since it logs what it
sends. Words for the causes are in diagnosis.py.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from types import TracebackType
from typing import Any, Literal, Self, get_args

from kafka.errors import KafkaProtocolError
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from mirrors.kafka import cleartext
from mirrors.kafka.login import Refused, log_in
from mirrors.kafka.lookup import resolve_host
from mirrors.kafka.protocol.throttles import THROTTLES
from mirrors.kafka.replies import reply_of
from mirrors.kafka.security import ConnectionFacts

Stage = Literal["dns", "tcp", "tls", "versions", "login", "ask"]
STEPS: tuple[Stage, ...] = get_args(Stage)
MAX_FRAME = 100 * 1024 * 1024
METADATA = 3
UNSUPPORTED_VERSION = (35).to_bytes(2, "big")


class Broken(Exception):
    """A step failed: which one, and what the system or the broker said of it."""

    def __init__(self, stage: Stage, cause: Exception) -> None:
        super().__init__(stage)
        self.stage: Stage = stage
        self.cause = cause


class Closed(ConnectionError):
    """The other side closed the connection instead of answering."""


class TooOld(Exception):
    """The broker does not know a request; the connection is as good as before."""


class Alien(Exception):
    """The answer is not Kafka's; `said` is how it begins where it is not even a frame."""

    def __init__(self, said: bytes) -> None:
        super().__init__("alien")
        self.said = said


class Dialogue:
    """Ask one broker questions. `deadline` is a moment of time.monotonic() for all of them."""

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        deadline: float,
        step_s: float = 10.0,
        client_id: str = "understudy-dialogue",
    ) -> None:
        self.facts, self.host, self.port = facts, host, port
        self.deadline, self.step_s = deadline, step_s
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.certificate: dict[str, Any] = {}
        self.stage: Stage = "dns"
        self._client_id = client_id
        self._numbers = itertools.count(1)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def open(self) -> Self:
        """All steps up to a usable connection; Broken names the one that failed."""
        facts = self.facts
        cleartext.check(
            self.host,
            self.port,
            alias=facts.alias,
            mechanism=facts.mechanism,
            tls=facts.tls is not None,
        )
        try:
            self._connect()
            self._secure()
            self._learn_versions()
            self._login()
        except (OSError, Alien, Refused, ValueError) as error:
            self.close()
            raise Broken(self.stage, error) from None
        self.stage = "ask"
        return self

    def ask(self, request: Any, *, at_most: int = 99) -> Any:
        """Send and wait for the answer, in the newest version that both sides know."""
        try:
            version = self._version_for(request, at_most)
        except TooOld as error:
            raise Broken(self.stage, error) from None
        try:
            return self._exchange(request, version)
        except (OSError, Alien) as error:
            self.close()
            raise Broken(self.stage, error) from None

    def knows(self, api_key: int) -> bool:
        return api_key in self.versions

    def _left(self) -> float:
        left = min(self.step_s, self.deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError
        return left

    def _connect(self) -> None:
        self.stage = "dns"
        addresses = resolve_host(self.host, self.port, self._left())
        self.stage = "tcp"
        failure: OSError = TimeoutError()
        for family, address in addresses:
            attempt = socket.socket(family, socket.SOCK_STREAM)
            try:
                attempt.settimeout(self._left())
                attempt.connect(address)
                attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                attempt.close()
                failure = error
            else:
                self._socket = attempt
                return
        raise failure

    def _secure(self) -> None:
        if self.facts.tls is None or self._socket is None:
            return
        self.stage = "tls"
        self._socket.settimeout(self._left())
        secured = self.facts.tls.wrap_socket(self._socket, server_hostname=self.host)
        self._socket = secured
        self.certificate = dict(secured.getpeercert() or {})

    def _learn_versions(self) -> None:
        self.stage = "versions"
        request = ApiVersionsRequest(client_software_name="understudy", client_software_version="1")
        body = self._send(request, 4)
        if body[:2] == UNSUPPORTED_VERSION:
            body, version = self._send(ApiVersionsRequest(), 0), 0
        else:
            version = 4
        answer = _decoded(ApiVersionsResponse, body, version)
        self.versions = {
            key.api_key: (key.min_version, key.max_version) for key in answer.api_keys or ()
        }
        if answer.error_code or METADATA not in self.versions:
            raise Alien(b"")
        self.features = {
            feature.name: feature.max_version_level
            for feature in getattr(answer, "finalized_features", None) or ()
        }

    def _login(self) -> None:
        if not self.facts.mechanism:
            return
        self.stage = "login"
        answer = self._exchange(SaslHandshakeRequest(mechanism=self.facts.mechanism), 1)
        if answer.error_code:
            raise Refused(answer.error_code, mechanisms=tuple(answer.mechanisms or ()))
        log_in(self.facts, self._authenticate, self._left())

    def _authenticate(self, data: bytes) -> bytes:
        answer = self._exchange(SaslAuthenticateRequest(auth_bytes=data), 1)
        if answer.error_code:
            raise Refused(answer.error_code, words=answer.error_message or "")
        return bytes(answer.auth_bytes or b"")

    def _version_for(self, request: Any, at_most: int) -> int:
        if request.API_KEY not in self.versions:
            raise TooOld(type(request).__name__)
        newest: int = request.max_version
        return min(self.versions[request.API_KEY][1], newest, at_most)

    def _exchange(self, request: Any, version: int) -> Any:
        answer = _decoded(reply_of(request), self._send(request, version), version)
        broker = f"{self.host}:{self.port}"
        THROTTLES.note(self.facts.alias, broker, getattr(answer, "throttle_time_ms", 0) or 0)
        return answer

    def _send(self, request: Any, version: int) -> bytes:
        """The answer's bytes after its header."""
        if self._socket is None:
            raise Closed
        number = next(self._numbers)
        request.API_VERSION = version
        request.with_header(correlation_id=number, client_id=self._client_id)
        self._socket.settimeout(self._left())
        self._socket.sendall(request.encode(header=True, framed=True))
        frame = self._frame()
        response = reply_of(request)
        flexible = response.flexible_version_q(version) and response.API_KEY != 18
        if int.from_bytes(frame[:4], "big") != number:
            raise Alien(b"")
        # A flexible header ends with its (empty) tagged fields; ApiVersions never has them.
        return frame[5 if flexible else 4 :]

    def _frame(self) -> bytes:
        head = self._receive(4)
        size = int.from_bytes(head, "big", signed=True)
        if not 4 <= size <= MAX_FRAME:
            raise Alien(head + self._whatever_follows())
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None  # noqa: S101 - _send checked it
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(self._left())
            piece = self._socket.recv(min(1 << 20, size - len(data)))
            if not piece:
                raise Alien(bytes(data)) if data else Closed
            data += piece
        return bytes(data)

    def _whatever_follows(self) -> bytes:
        assert self._socket is not None  # noqa: S101 - _send checked it
        try:
            self._socket.settimeout(0.2)
            return self._socket.recv(60)
        except OSError:
            return b""


def _decoded(kind: Any, body: bytes, version: int) -> Any:
    """Whatever a codec makes of bytes that are no such answer, it is one thing to us: no Kafka."""
    try:
        return kind.decode(body, version=version)
    except (KafkaProtocolError, LookupError, TypeError, ValueError, ArithmeticError, struct.error):
        raise Alien(b"") from None
