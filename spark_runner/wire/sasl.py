"""SASL logins inside Kafka's protocol: PLAIN, SCRAM, OAUTHBEARER; and their renewal (KIP-368)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.net.sasl.scram import ScramClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from mirrors.domain.errors import KafkaRefused
from mirrors.kafka.security import ConnectionFacts

Exchange = Callable[[Any], Any]


def log_in(exchange: Exchange, facts: ConnectionFacts, where: str) -> float | None:
    """Log in if the facts ask for it; the seconds for which the login holds, None for ever.

    `exchange` sends one request and returns its reply.
    """
    if not facts.mechanism:
        return None
    reply = exchange(SaslHandshakeRequest(mechanism=facts.mechanism))
    if reply.error_code:
        offered = ", ".join(reply.mechanisms) or "none"
        raise KafkaRefused(
            f"Cluster {where}: the broker does not offer {facts.mechanism}; it offers "
            f"{offered}. Choose one that it offers.",
            code="mechanism",
        )
    lifetime = _converse(exchange, facts, where)
    return lifetime / 1000 if lifetime > 0 else None


def _converse(exchange: Exchange, facts: ConnectionFacts, where: str) -> int:
    if facts.token is not None:
        token = facts.token.token().value.reveal()
        return _say(exchange, f"n,,\x01auth=Bearer {token}\x01\x01".encode(), where)[1]
    assert facts.password is not None  # noqa: S101 - connection_facts() saw to it
    password = facts.password.reveal()
    if facts.mechanism == "PLAIN":
        words = f"\0{facts.username}\0{password}".encode()
        return _say(exchange, words, where)[1]
    # RFC 5802: "=" and "," inside a name are escaped; kafka-python sends the name as it is.
    name = facts.username.replace("=", "=3D").replace(",", "=2C")
    scram: Any = ScramClient(name, password, facts.mechanism)
    answer, _ = _say(exchange, scram.first_message(), where)
    try:
        scram.process_server_first_message(answer)
        answer, lifetime = _say(exchange, scram.final_message(), where)
        scram.process_server_final_message(answer)
    except (ValueError, KeyError):
        raise KafkaRefused(
            f"Cluster {where}: the broker's part of the {facts.mechanism} login is "
            "wrong, so it does not know the password itself. Do not trust this broker.",
            code="authentication",
        ) from None
    return lifetime


def _say(exchange: Exchange, words: bytes, where: str) -> tuple[bytes, int]:
    reply = exchange(SaslAuthenticateRequest(auth_bytes=words))
    if reply.error_code:
        raise KafkaRefused(
            f"Cluster {where}: the broker refused the login. Check the mechanism, the "
            "user name and the secret.",
            code="authentication",
        )
    answer = bytes(reply.auth_bytes)
    if answer.startswith(b"{"):
        # RFC 7628: with OAUTHBEARER a refusal comes as JSON, and wants a last word from us.
        exchange(SaslAuthenticateRequest(auth_bytes=b"\x01"))
        raise KafkaRefused(
            f"Cluster {where}: the broker refused the token. Check its scope and audience.",
            code="authentication",
        )
    return answer, reply.session_lifetime_ms or 0
