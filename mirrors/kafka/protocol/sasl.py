"""SASL logins inside Kafka's protocol: PLAIN, SCRAM, OAUTHBEARER; and their lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.scram import ScramClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.connection_errors import LoginRejected, ServerNotVerified
from mirrors.kafka.security.connection_settings import ConnectionFacts

Exchange = Callable[[Any], Any]


def log_in(exchange: Exchange, facts: ConnectionFacts, seconds: float) -> float | None:
    """Log in if configured. Returns the lifetime of the login in seconds, None without a limit.

    `exchange` sends one request and returns its response. Raises LoginRejected or
    ServerNotVerified.
    """
    if not facts.mechanism:
        return None
    reply = exchange(SaslHandshakeRequest(mechanism=facts.mechanism))
    if reply.error_code:
        raise LoginRejected(reply.error_code, mechanisms=tuple(reply.mechanisms or ()))
    lifetime = _Login(exchange, facts, seconds).run()
    return lifetime / 1000 if lifetime > 0 else None


class _Login:
    def __init__(self, exchange: Exchange, facts: ConnectionFacts, seconds: float) -> None:
        self._exchange, self._facts, self._seconds = exchange, facts, seconds
        self._lifetime_ms = 0

    def run(self) -> int:
        """Returns the session lifetime in milliseconds (KIP-368); 0 without a limit."""
        facts = self._facts
        if facts.token is not None:
            token = facts.token.token(deadline_s=self._seconds)
            self._with_token(token.value.reveal(), facts.token.extensions)
        elif facts.password is not None:
            password = facts.password.reveal()
            if facts.mechanism == "PLAIN":
                self._authenticate(f"\0{facts.username}\0{password}".encode())
            else:
                self._with_scram(password)
        return self._lifetime_ms

    def _with_scram(self, password: str) -> None:
        scram: Any = ScramClient(_scram_name(self._facts.username), password, self._facts.mechanism)
        try:
            scram.process_server_first_message(self._authenticate(scram.first_message()))
            scram.process_server_final_message(self._authenticate(scram.final_message()))
        except (ValueError, KeyError):
            raise ServerNotVerified from None

    def _with_token(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = "".join(f"\x01{name}={text}" for name, text in extensions.items())
        if self._authenticate(f"n,,\x01auth=Bearer {token}{pairs}\x01\x01".encode()):
            # RFC 7628: the refusal is data; the error number comes after our acknowledgement.
            self._authenticate(b"\x01")
            raise LoginRejected(Code.SASL_AUTHENTICATION_FAILED)

    def _authenticate(self, message: bytes) -> bytes:
        reply = self._exchange(SaslAuthenticateRequest(auth_bytes=message))
        if reply.error_code:
            raise LoginRejected(reply.error_code, message=reply.error_message or "")
        self._lifetime_ms = reply.session_lifetime_ms or 0
        return bytes(reply.auth_bytes or b"")


def _scram_name(username: str) -> str:
    # RFC 5802: "," and "=" inside a name are escaped; kafka-python sends the name as it is.
    return username.replace("=", "=3D").replace(",", "=2C")
