"""Diagnoses failed connections: one sentence that an operator can act on, and a stable code."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import time
from collections.abc import Callable

from kafka.protocol.sasl import SaslHandshakeRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.login_errors import join_names, login_failure
from mirrors.kafka.connection.tls_errors import tls_failure
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import (
    ConnectionClosed,
    ConnectionFailed,
    NotKafka,
    UnsupportedVersion,
)
from mirrors.kafka.quotas import timeout_error
from mirrors.kafka.security.connection_settings import ConnectionFacts

# Harmless to Kafka (a frame far too long, so it hangs up), and most servers answer it.
HTTP_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
PROTOCOL_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"HTTP/", "HTTP"),
    (b"<", "HTML or XML"),
    (b"-ERR", "the protocol of Redis"),
    (b"-NOAUTH", "the protocol of Redis"),
    (b"-DENIED", "the protocol of Redis"),
    (b"SSH-", "SSH"),
    (b"220 ", "the greeting of a mail or FTP server"),
    (b"\x15\x03", "TLS"),
    (b"\x16\x03", "TLS"),
    (b"AMQP", "AMQP"),
)


def protocol_of(received: bytes) -> str:
    """The protocol that these bytes indicate; empty if they indicate none."""
    for sign, name in PROTOCOL_SIGNATURES:
        if received.startswith(sign):
            return name
    return ""


def read_greeting(host: str, port: int, seconds: float) -> bytes:
    """The first bytes that a server sends after an HTTP request, which most text protocols
    answer."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(HTTP_REQUEST)
            return connection.recv(64)
    except OSError:
        return b""


NOT_KAFKA = "Check the port: it is not a Kafka listener."


@dataclasses.dataclass(frozen=True)
class FailedConnection:
    """A failed connection, and the time for a second attempt."""

    spec: ClusterSpec
    facts: ConnectionFacts
    deadline: float
    error: ConnectionFailed

    @property
    def host(self) -> str:
        return self.error.address[0]

    @property
    def port(self) -> int:
        return self.error.address[1]

    @property
    def at(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def seconds(self) -> float:
        return max(0.3, min(2.0, self.deadline - time.monotonic()))

    def without_tls_and_login(self) -> BrokerConnection:
        bare = dataclasses.replace(self.facts, tls=None, mechanism="", password=None, token=None)
        return self._reconnect(bare)

    def without_login(self) -> BrokerConnection:
        bare = dataclasses.replace(self.facts, mechanism="", password=None, token=None)
        return self._reconnect(bare)

    def _reconnect(self, facts: ConnectionFacts) -> BrokerConnection:
        connection = BrokerConnection(facts, self.host, self.port, client_id="understudy-diagnosis")
        return connection.connect(time.monotonic() + self.seconds)


def diagnose(
    error: ConnectionFailed, spec: ClusterSpec, facts: ConnectionFacts, deadline: float
) -> UnderstudyError:
    """The error with its likely cause. Connects a second time where the bytes alone are
    ambiguous."""
    failed = FailedConnection(spec, facts, deadline, error)
    if isinstance(error.cause, UnderstudyError):
        return error.cause
    return STEPS[error.step](failed)


def _dns(failed: FailedConnection) -> UnderstudyError:
    if isinstance(failed.error.cause, TimeoutError):
        return KafkaUnavailable(
            f"The name {failed.host} was not resolved in time: the name server does not respond "
            "to this host.",
            code="dns",
        )
    return KafkaUnavailable(
        f"The host name {failed.host} cannot be resolved from this host. Check its spelling, or "
        "use a name or an address that this host's DNS can resolve.",
        code="dns",
    )


def _tcp(failed: FailedConnection) -> UnderstudyError:
    cause = failed.error.cause
    if isinstance(cause, ConnectionRefusedError):
        return KafkaUnavailable(
            f"{failed.at} refused the connection: nothing listens there. Check the port, and that "
            "the broker is running.",
            code="refused",
        )
    if isinstance(cause, TimeoutError):
        return KafkaUnavailable(
            f"{failed.at} did not accept a connection in time: the host is down or a firewall "
            "drops the packets.",
            code="timeout",
        )
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else "no connection"
    return KafkaUnavailable(
        f"{failed.at} cannot be reached: {words}. Check the address and the network route.",
        code="unreachable",
    )


def _tls(failed: FailedConnection) -> UnderstudyError:
    cause = failed.error.cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return tls_failure(cause, failed.spec, failed.host, failed.port, failed.seconds)
    try:
        with failed.without_tls_and_login():
            pass
    except ConnectionFailed as second:
        return _tls_diagnosis(failed, second)
    return KafkaUnavailable(
        f"{failed.at} is a Kafka listener without TLS, but the cluster is set to "
        f"{failed.spec.security_protocol}. Set PLAINTEXT or SASL_PLAINTEXT, or use the TLS port.",
        code="tls_on_plaintext",
    )


def _tls_diagnosis(failed: FailedConnection, second: ConnectionFailed) -> UnderstudyError:
    received = second.cause.received if isinstance(second.cause, NotKafka) else b""
    if name := protocol_of(received or read_greeting(failed.host, failed.port, failed.seconds)):
        if name != "TLS":
            return _not_kafka(failed, name)
    elif isinstance(failed.error.cause, TimeoutError):
        return _no_response(failed)
    cause = failed.error.cause
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return tls_failure(cause, failed.spec, failed.host, failed.port, failed.seconds)
    return KafkaUnavailable(
        f"{failed.at} closed the connection during the TLS handshake. {NOT_KAFKA[:-1]}, or it "
        "requires a client certificate.",
        code="tls",
    )


def _versions(failed: FailedConnection) -> UnderstudyError:
    cause = failed.error.cause
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return tls_failure(cause, failed.spec, failed.host, failed.port, failed.seconds)
    name = _answering_protocol(failed)
    if name == "TLS":
        return KafkaUnavailable(
            f"{failed.at} speaks TLS, but the cluster is set to {failed.spec.security_protocol}. "
            "Set SSL or SASL_SSL, or use the port of a listener without TLS.",
            code="plaintext_on_tls",
        )
    if name or isinstance(cause, NotKafka):
        return _not_kafka(failed, name or "something else")
    if isinstance(cause, TimeoutError):
        return _no_response(failed)
    if failed.facts.tls is not None and isinstance(
        cause, ConnectionClosed | ConnectionError | ssl.SSLError
    ):
        return KafkaUnavailable(
            f"{failed.at} closed the connection right after the TLS handshake: it requires a "
            "client certificate, or it is not a Kafka listener. Set ssl_certificate and ssl_key.",
            code="tls_client_certificate",
        )
    return KafkaUnavailable(
        f"{failed.at} closed the connection at the first request. {NOT_KAFKA}", code="not_kafka"
    )


def _answering_protocol(failed: FailedConnection) -> str:
    """The protocol that the port speaks; empty if its bytes do not show it."""
    cause = failed.error.cause
    name = protocol_of(cause.received) if isinstance(cause, NotKafka) else ""
    if name or failed.facts.tls is not None:
        return name
    # A TLS server objects at once to bytes that are no TLS: one that waits is something else.
    if not isinstance(cause, TimeoutError) and _supports_tls(failed):
        return "TLS"
    return protocol_of(read_greeting(failed.host, failed.port, failed.seconds))


def _not_kafka(failed: FailedConnection, name: str) -> UnderstudyError:
    return KafkaUnavailable(f"{failed.at} responded with {name}. {NOT_KAFKA}", code="not_kafka")


def _no_response(failed: FailedConnection) -> UnderstudyError:
    return KafkaUnavailable(
        f"{failed.at} accepted the connection and then sent nothing in time. It is not a Kafka "
        "listener, or the broker is stuck or overloaded.",
        code="silent",
    )


def _supports_tls(failed: FailedConnection) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((failed.host, failed.port), failed.seconds) as plain,
            context.wrap_socket(plain, server_hostname=failed.host),
        ):
            return True
    except ssl.SSLError as error:
        # An alert is an answer in TLS; anything else is no TLS at all.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _request(failed: FailedConnection) -> UnderstudyError:
    if isinstance(failed.error.cause, UnsupportedVersion):
        return KafkaRefused(
            f"{failed.at} runs a Kafka version that is too old for {failed.error.cause}.",
            code="version",
        )
    if isinstance(failed.error.cause, NotKafka):
        return _not_kafka(failed, "something other than Kafka's protocol")
    if isinstance(failed.error.cause, TimeoutError):
        words = f"{failed.at} did not respond in time; the broker may be overloaded."
        return timeout_error(failed.spec.alias, words)
    if not failed.facts.mechanism and isinstance(failed.error.cause, ConnectionError):
        offered = _offered_mechanisms(failed)
        if offered:
            return KafkaRefused(
                f"{failed.at} demands a SASL login, but the cluster is set to "
                f"{failed.spec.security_protocol}. Set "
                f"{'SASL_SSL' if failed.facts.tls else 'SASL_PLAINTEXT'} and one of "
                f"{join_names(offered)}.",
                code="sasl_missing",
            )
    return KafkaUnavailable(
        f"{failed.at} closed the connection instead of responding. The broker may be stopping.",
        code="closed",
    )


def _offered_mechanisms(failed: FailedConnection) -> tuple[str, ...]:
    try:
        with failed.without_login() as connection:
            request = SaslHandshakeRequest(mechanism="?")
            answer = connection.call(request, time.monotonic() + failed.seconds, newest=1)
            return tuple(answer.mechanisms or ())
    except ConnectionFailed:
        return ()


STEPS: dict[str, Callable[[FailedConnection], UnderstudyError]] = {
    "dns": _dns,
    "tcp": _tcp,
    "tls": _tls,
    "versions": _versions,
    "login": lambda failed: login_failure(failed.error.cause, failed.spec, failed.at),
    "request": _request,
}
