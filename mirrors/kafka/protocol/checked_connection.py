"""A connection whose failures are errors with a sentence, for callers that do not look further."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import (
    Alien,
    Closed,
    OtherReply,
    Refused,
    TooOld,
    Unproven,
)
from mirrors.kafka.quotas import late
from mirrors.kafka.security.connection_settings import ConnectionFacts


class ClientConnection(BrokerConnection):
    """Connected when it is made. Any failure leaves it unusable: close it and open another.

    `node` is the number of the broker, -1 if it is unknown. Raises KafkaUnavailable, KafkaRefused.
    """

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        deadline: float,
        client_id: str,
        node: int = -1,
    ) -> None:
        super().__init__(facts, host, port, client_id=client_id)
        self.node = node
        self.connect(deadline)

    def failure(self, cause: Exception) -> UnderstudyError:
        at = f"Cluster {self.where}"
        for kind, told in _TOLD:
            if isinstance(cause, kind):
                return told(at, self, cause)
        if self.stage == "dns":
            return _not_resolved(at, cause)
        if self.stage == "tcp":
            return _not_connected(at, cause)
        if isinstance(cause, TimeoutError):
            return too_late(self.where)
        known = isinstance(cause, OSError) and not isinstance(cause, Closed)
        return cut_off(self.where, cause if known else None)  # type: ignore[arg-type]


def too_late(where: str) -> KafkaUnavailable:
    alias = where.partition(" (")[0]
    words = f"Cluster {where}: no answer in time. The broker may be overloaded or cut off."
    return late(alias, words)


def cut_off(where: str, error: OSError | None) -> KafkaUnavailable:
    cause = "it was closed by the other side" if error is None else _reason_of(error)
    return KafkaUnavailable(
        f"Cluster {where}: the connection was lost ({cause}). The broker may be restarting.",
        code="connection_lost",
    )


def _reason_of(error: OSError) -> str:
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return "reset by the other side"
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def _too_old(at: str, _: ClientConnection, cause: TooOld) -> UnderstudyError:
    (low, high), (least, most) = cause.theirs, cause.ours
    return KafkaRefused(
        f"{at}: the broker speaks {cause.request} in versions {low} to {high}; {least} to {most} "
        "are needed (Kafka 2.8 or newer).",
        code="version",
    )


def _refused(at: str, link: ClientConnection, cause: Refused) -> UnderstudyError:
    facts = link.facts
    if cause.number == Code.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(cause.mechanisms) or "none"
        return KafkaRefused(
            f"{at}: the broker does not offer {facts.mechanism}; it offers {offered}. Choose one "
            "that it offers.",
            code="mechanism",
        )
    if facts.token is not None:
        words = "the broker refused the token. Check its scope and audience."
    else:
        words = "the broker refused the login. Check the mechanism, the user name and the secret."
    return KafkaRefused(f"{at}: {words}", code="authentication")


def _unproven(at: str, link: ClientConnection, _: Unproven) -> UnderstudyError:
    return KafkaRefused(
        f"{at}: the broker's part of the {link.facts.mechanism} login is wrong, so it does not "
        "know the password itself. Do not trust this broker.",
        code="authentication",
    )


def _other_reply(at: str, *_: object) -> UnderstudyError:
    return KafkaUnavailable(
        f"{at}: a reply to another request came. The connection is closed.", code="protocol"
    )


def _alien(at: str, *_: object) -> UnderstudyError:
    return KafkaUnavailable(
        f"{at}: the reply is not Kafka's protocol. Check that this is the port of a Kafka "
        "listener, and its security protocol.",
        code="not_kafka",
    )


_TOLD: tuple[tuple[type[Exception], Callable[..., UnderstudyError]], ...] = (
    (TooOld, _too_old),
    (Refused, _refused),
    (Unproven, _unproven),
    (OtherReply, _other_reply),
    (Alien, _alien),
)


def _not_resolved(at: str, cause: Exception) -> UnderstudyError:
    if isinstance(cause, TimeoutError):
        told = "the host name was not resolved in time. The DNS does not answer: check it."
    else:
        told = "the host name cannot be resolved. Check its spelling and the DNS."
    return KafkaUnavailable(f"{at}: {told}", code="dns")


def _not_connected(at: str, cause: Exception) -> UnderstudyError:
    if isinstance(cause, TimeoutError) or not isinstance(cause, OSError):
        return KafkaUnavailable(
            f"{at}: no connection in time. Check that the broker runs and that no firewall drops "
            "the connection.",
            code="timeout",
        )
    return KafkaUnavailable(
        f"{at}: no connection ({_reason_of(cause)}). Check that the broker runs and that the "
        "address it advertises can be reached from here.",
        code="unreachable",
    )
