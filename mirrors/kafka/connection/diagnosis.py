"""Why a connection failed, in one sentence a person can act on; each class has a stable code."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import time
from collections.abc import Callable

from kafka.protocol.sasl import SaslHandshakeRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.login_errors import listed, login_failure
from mirrors.kafka.connection.tls_errors import tls_failure
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import Alien, Closed, ConnectionFailed, TooOld
from mirrors.kafka.quotas import late
from mirrors.kafka.security.connection_settings import ConnectionFacts

# Harmless to Kafka (a frame far too long, so it hangs up), and most servers answer it.
GREETING = b"GET / HTTP/1.0\r\n\r\n"
SIGNS: tuple[tuple[bytes, str], ...] = (
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


def protocol_of(said: bytes) -> str:
    """What the bytes are a sign of; empty when they say nothing."""
    for sign, name in SIGNS:
        if said.startswith(sign):
            return name
    return ""


def greet(host: str, port: int, seconds: float) -> bytes:
    """The first bytes a server answers to a greeting that nearly every text protocol answers."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(GREETING)
            return connection.recv(64)
    except OSError:
        return b""


NOT_KAFKA = "Check the port: it is not a Kafka listener."


@dataclasses.dataclass(frozen=True)
class Scene:
    """What the explanation may look at: the connection that failed and time for one more look."""

    spec: ClusterSpec
    facts: ConnectionFacts
    deadline: float
    failed: ConnectionFailed

    @property
    def host(self) -> str:
        return self.failed.address[0]

    @property
    def port(self) -> int:
        return self.failed.address[1]

    @property
    def at(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def seconds(self) -> float:
        return max(0.3, min(2.0, self.deadline - time.monotonic()))

    def without_tls_and_login(self) -> BrokerConnection:
        bare = dataclasses.replace(self.facts, tls=None, mechanism="", password=None, token=None)
        return self._again(bare)

    def without_login(self) -> BrokerConnection:
        bare = dataclasses.replace(self.facts, mechanism="", password=None, token=None)
        return self._again(bare)

    def _again(self, facts: ConnectionFacts) -> BrokerConnection:
        link = BrokerConnection(facts, self.host, self.port, client_id="understudy-diagnosis")
        return link.connect(time.monotonic() + self.seconds)


def diagnose(
    failed: ConnectionFailed, spec: ClusterSpec, facts: ConnectionFacts, deadline: float
) -> UnderstudyError:
    """The error with its likely cause; looks once more where the bytes alone are ambiguous."""
    scene = Scene(spec, facts, deadline, failed)
    if isinstance(failed.cause, UnderstudyError):
        return failed.cause
    return STEPS[failed.step](scene)


def _dns(scene: Scene) -> UnderstudyError:
    if isinstance(scene.failed.cause, TimeoutError):
        return KafkaUnavailable(
            f"The name {scene.host} was not resolved in time: the name server does not respond "
            "to this host.",
            code="dns",
        )
    return KafkaUnavailable(
        f"The host name {scene.host} cannot be resolved from this host. Check its spelling, or "
        "use a name or an address that this host's DNS can resolve.",
        code="dns",
    )


def _tcp(scene: Scene) -> UnderstudyError:
    cause = scene.failed.cause
    if isinstance(cause, ConnectionRefusedError):
        return KafkaUnavailable(
            f"{scene.at} refused the connection: nothing listens there. Check the port, and that "
            "the broker is running.",
            code="refused",
        )
    if isinstance(cause, TimeoutError):
        return KafkaUnavailable(
            f"{scene.at} did not accept a connection in time: the host is down or a firewall drops "
            "the packets.",
            code="timeout",
        )
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else "no connection"
    return KafkaUnavailable(
        f"{scene.at} cannot be reached: {words}. Check the address and the network route.",
        code="unreachable",
    )


def _tls(scene: Scene) -> UnderstudyError:
    cause = scene.failed.cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return tls_failure(cause, scene.spec, scene.host, scene.port, scene.seconds)
    try:
        with scene.without_tls_and_login():
            pass
    except ConnectionFailed as second:
        return _tls_diagnosis(scene, second)
    return KafkaUnavailable(
        f"{scene.at} is a Kafka listener without TLS, but the cluster is set to "
        f"{scene.spec.security_protocol}. Set PLAINTEXT or SASL_PLAINTEXT, or use the TLS port.",
        code="tls_on_plaintext",
    )


def _tls_diagnosis(scene: Scene, second: ConnectionFailed) -> UnderstudyError:
    said = second.cause.said if isinstance(second.cause, Alien) else b""
    if name := protocol_of(said or greet(scene.host, scene.port, scene.seconds)):
        if name != "TLS":
            return _not_kafka(scene, name)
    elif isinstance(scene.failed.cause, TimeoutError):
        return _silent(scene)
    cause = scene.failed.cause
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return tls_failure(cause, scene.spec, scene.host, scene.port, scene.seconds)
    return KafkaUnavailable(
        f"{scene.at} closed the connection during the TLS handshake. {NOT_KAFKA[:-1]}, or it "
        "requires a client certificate.",
        code="tls",
    )


def _versions(scene: Scene) -> UnderstudyError:
    cause = scene.failed.cause
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return tls_failure(cause, scene.spec, scene.host, scene.port, scene.seconds)
    name = _answering_protocol(scene)
    if name == "TLS":
        return KafkaUnavailable(
            f"{scene.at} speaks TLS, but the cluster is set to {scene.spec.security_protocol}. "
            "Set SSL or SASL_SSL, or use the port of a listener without TLS.",
            code="plaintext_on_tls",
        )
    if name or isinstance(cause, Alien):
        return _not_kafka(scene, name or "something else")
    if isinstance(cause, TimeoutError):
        return _silent(scene)
    if scene.facts.tls is not None and isinstance(cause, Closed | ConnectionError | ssl.SSLError):
        return KafkaUnavailable(
            f"{scene.at} closed the connection right after the TLS handshake: it requires a "
            "client certificate, or it is not a Kafka listener. Set ssl_certificate and ssl_key.",
            code="tls_client_certificate",
        )
    return KafkaUnavailable(
        f"{scene.at} closed the connection at the first request. {NOT_KAFKA}", code="not_kafka"
    )


def _answering_protocol(scene: Scene) -> str:
    """Who answers on that port, as far as its bytes tell; empty when they do not."""
    cause = scene.failed.cause
    name = protocol_of(cause.said) if isinstance(cause, Alien) else ""
    if name or scene.facts.tls is not None:
        return name
    # A TLS server objects at once to bytes that are no TLS: one that waits is something else.
    if not isinstance(cause, TimeoutError) and _speaks_tls(scene):
        return "TLS"
    return protocol_of(greet(scene.host, scene.port, scene.seconds))


def _not_kafka(scene: Scene, name: str) -> UnderstudyError:
    return KafkaUnavailable(f"{scene.at} responded with {name}. {NOT_KAFKA}", code="not_kafka")


def _silent(scene: Scene) -> UnderstudyError:
    return KafkaUnavailable(
        f"{scene.at} accepted the connection and then sent nothing in time. It is not a Kafka "
        "listener, or the broker is stuck or overloaded.",
        code="silent",
    )


def _speaks_tls(scene: Scene) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((scene.host, scene.port), scene.seconds) as plain,
            context.wrap_socket(plain, server_hostname=scene.host),
        ):
            return True
    except ssl.SSLError as error:
        # An alert is an answer in TLS; anything else is no TLS at all.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _ask(scene: Scene) -> UnderstudyError:
    if isinstance(scene.failed.cause, TooOld):
        return KafkaRefused(
            f"{scene.at} runs a Kafka version that is too old for {scene.failed.cause}.",
            code="version",
        )
    if isinstance(scene.failed.cause, Alien):
        return _not_kafka(scene, "something other than Kafka's protocol")
    if isinstance(scene.failed.cause, TimeoutError):
        words = f"{scene.at} did not respond in time; the broker may be overloaded."
        return late(scene.spec.alias, words)
    if not scene.facts.mechanism and isinstance(scene.failed.cause, ConnectionError):
        offered = _offered_mechanisms(scene)
        if offered:
            return KafkaRefused(
                f"{scene.at} demands a SASL login, but the cluster is set to "
                f"{scene.spec.security_protocol}. Set "
                f"{'SASL_SSL' if scene.facts.tls else 'SASL_PLAINTEXT'} and one of "
                f"{listed(offered)}.",
                code="sasl_missing",
            )
    return KafkaUnavailable(
        f"{scene.at} closed the connection instead of responding. The broker may be stopping.",
        code="closed",
    )


def _offered_mechanisms(scene: Scene) -> tuple[str, ...]:
    try:
        with scene.without_login() as link:
            request = SaslHandshakeRequest(mechanism="?")
            answer = link.call(request, time.monotonic() + scene.seconds, newest=1)
            return tuple(answer.mechanisms or ())
    except ConnectionFailed:
        return ()


STEPS: dict[str, Callable[[Scene], UnderstudyError]] = {
    "dns": _dns,
    "tcp": _tcp,
    "tls": _tls,
    "versions": _versions,
    "login": lambda scene: login_failure(scene.failed.cause, scene.spec, scene.at),
    "ask": _ask,
}
