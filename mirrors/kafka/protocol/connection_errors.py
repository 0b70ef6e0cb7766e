"""Why a connection to a broker failed: the step, the cause, and a sentence.

`mirrors.kafka.connection.diagnosis` connects a second time where the cause alone is ambiguous.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar, get_args

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import ClientCode, Code
from mirrors.kafka.error_table import ROWS
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.quotas import timeout_error
from mirrors.kafka.security.connection_settings import ConnectionFacts

E = TypeVar("E", bound=Exception)

Step = Literal["dns", "tcp", "tls", "versions", "login", "request"]
STEPS: tuple[Step, ...] = get_args(Step)


class ConnectionClosed(ConnectionError):
    """The other side closed the connection; `received` is what it sent before."""

    def __init__(self, received: bytes = b"") -> None:
        super().__init__("closed")
        self.received = received


class NotKafka(Exception):
    """The response is not Kafka's; `received` is its beginning if it is not even a frame."""

    def __init__(self, received: bytes = b"") -> None:
        super().__init__("alien")
        self.received = received


class ServerNotVerified(Exception):
    """The broker did not prove that it knows the password."""


class WrongCorrelationId(NotKafka):
    """The reply belongs to another request."""


@dataclasses.dataclass
class UnsupportedVersion(Exception):
    """The broker supports no version of the request that this program supports. The connection is
    fine."""

    request: str
    broker_versions: tuple[int, int]
    client_versions: tuple[int, int]

    def __str__(self) -> str:
        return self.request


@dataclasses.dataclass
class LoginRejected(Exception):
    """The broker rejected the login with a Kafka error code."""

    number: int
    message: str = ""
    mechanisms: tuple[str, ...] = ()


CAUSES = (OSError, NotKafka, LoginRejected, ServerNotVerified, UnsupportedVersion)
"""What a step raises."""


class ConnectionFailed(UnderstudyError):
    """A step failed. `cause` is one of `CAUSES`, or the error of this program that ended the step.

    `diagnosis` caches the explanation of the second attempt.
    """

    def __init__(
        self, message: str, *, code: str, address: Address, step: Step, cause: Exception
    ) -> None:
        super().__init__(message, code=code)
        self.address = address
        self.step: Step = step
        self.cause = cause
        self.diagnosis: UnderstudyError | None = None


class BrokerUnavailable(ConnectionFailed, KafkaUnavailable):
    """No usable connection; a retry may help."""


class BrokerRejected(ConnectionFailed, KafkaRefused):
    """The broker rejected the login, or it is too old for the request."""


def connection_failure(
    step: Step, cause: Exception, facts: ConnectionFacts, address: Address
) -> ConnectionFailed:
    """The error for a cause at a step of a connection to this address."""
    where = f"{facts.alias} ({address[0]}:{address[1]})"
    found = cause if isinstance(cause, UnderstudyError) else _sentence(step, cause, facts, where)
    kind = BrokerRejected if isinstance(found, KafkaRefused) else BrokerUnavailable
    return kind(found.message, code=found.code, address=address, step=step, cause=cause)


def furthest(failures: Mapping[Address, Exception]) -> Address:
    """The address whose failure says the most: a rejection, else the one that got furthest.

    A rejected login at one address says more than another address that is dead.
    """

    def progress(address: Address) -> tuple[bool, int]:
        error = failures[address]
        step = STEPS.index(error.step) if isinstance(error, ConnectionFailed) else -1
        return isinstance(error, KafkaRefused), step

    return max(failures, key=progress)


def why_no_address(
    failures: Mapping[Address, E], explain: Callable[[E], UnderstudyError]
) -> UnderstudyError:
    """Why no address of a cluster works: the error of the one that got furthest, and the others."""
    first = furthest(failures)
    error = explain(failures[first])
    others = [f"{host}:{port}" for host, port in failures if (host, port) != first]
    if not others:
        return error
    kind = KafkaRefused if isinstance(error, KafkaRefused) else KafkaUnavailable
    return kind(f"{error.message} No connection to {', '.join(others)} either.", code=error.code)


# -- sentences


def timed_out(where: str) -> KafkaUnavailable:
    """The error for a response that did not arrive in time."""
    alias = where.partition(" (")[0]
    sentence = f"Cluster {where}: no response in time. The broker may be overloaded or unreachable."
    return timeout_error(alias, sentence)


def connection_lost(where: str, error: OSError | None) -> KafkaUnavailable:
    """The error for a connection that broke; None: the other side closed it."""
    cause = "the other side closed it" if error is None else _reason_of(error)
    return KafkaUnavailable(
        f"Cluster {where}: the connection was lost ({cause}). The broker may be restarting.",
        code="connection_lost",
    )


def _sentence(step: Step, cause: Exception, facts: ConnectionFacts, where: str) -> UnderstudyError:
    at = f"Cluster {where}"
    for kind, sentence in _SENTENCES:
        if isinstance(cause, kind):
            return sentence(at, facts, cause)
    if step == "dns":
        return _not_resolved(at, cause)
    if step == "tcp":
        return _not_connected(at, cause)
    if isinstance(cause, TimeoutError):
        return timed_out(where)
    is_known = isinstance(cause, OSError) and not isinstance(cause, ConnectionClosed)
    return connection_lost(where, cause if is_known else None)  # type: ignore[arg-type]


def _reason_of(error: OSError) -> str:
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return "reset by the other side"
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def _unsupported_version(at: str, _: ConnectionFacts, cause: UnsupportedVersion) -> UnderstudyError:
    (low, high), (least, most) = cause.broker_versions, cause.client_versions
    return KafkaRefused(
        f"{at}: the broker speaks {cause.request} in versions {low} to {high}; {least} to {most} "
        "are needed (Kafka 2.8 or newer).",
        code="version",
    )


def _login_rejected(at: str, facts: ConnectionFacts, cause: LoginRejected) -> UnderstudyError:
    if cause.number == Code.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(cause.mechanisms) or "none"
        return KafkaRefused(
            f"{at}: the broker does not offer {facts.mechanism}; it offers {offered}. Choose one "
            "that it offers.",
            code="mechanism",
        )
    if facts.token is not None:
        sentence = "the broker rejected the token. Check its scope and audience."
    else:
        sentence = f"{ROWS[Code.SASL_AUTHENTICATION_FAILED].sentence}."
    return KafkaRefused(f"{at}: {sentence}", code="authentication")


def _server_not_verified(at: str, facts: ConnectionFacts, _: ServerNotVerified) -> UnderstudyError:
    return KafkaRefused(
        f"{at}: the broker's part of the {facts.mechanism} login is wrong, so it does not "
        "know the password itself. Do not trust this broker.",
        code="authentication",
    )


def _wrong_correlation_id(at: str, *_: object) -> UnderstudyError:
    return KafkaUnavailable(
        f"{at}: a response to another request arrived. The connection is closed.", code="protocol"
    )


def _not_kafka(at: str, *_: object) -> UnderstudyError:
    return KafkaUnavailable(
        f"{at}: the response is not Kafka's protocol. Check that this is the port of a Kafka "
        "listener, and its security protocol.",
        code="not_kafka",
    )


_SENTENCES: tuple[tuple[type[Exception], Callable[..., UnderstudyError]], ...] = (
    (UnsupportedVersion, _unsupported_version),
    (LoginRejected, _login_rejected),
    (ServerNotVerified, _server_not_verified),
    (WrongCorrelationId, _wrong_correlation_id),
    (NotKafka, _not_kafka),
)


def _not_resolved(at: str, cause: Exception) -> UnderstudyError:
    if isinstance(cause, TimeoutError):
        sentence = "the host name was not resolved in time. The DNS does not respond: check it."
    else:
        sentence = f"{ROWS[ClientCode.RESOLVE].sentence}."
    return KafkaUnavailable(f"{at}: {sentence}", code="dns")


def _not_connected(at: str, cause: Exception) -> UnderstudyError:
    if isinstance(cause, TimeoutError) or not isinstance(cause, OSError):
        return KafkaUnavailable(
            f"{at}: no connection in time. Check that the broker is running and that no firewall "
            "drops the connection.",
            code="timeout",
        )
    return KafkaUnavailable(
        f"{at}: no connection ({_reason_of(cause)}). Check that the broker is running and that "
        "the address it advertises can be reached from here.",
        code="unreachable",
    )
