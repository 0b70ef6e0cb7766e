"""The messages of a SASL login: PLAIN, SCRAM, OAUTHBEARER."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kafka.net.sasl.scram import ScramClient

from mirrors.kafka.clients import scram_name
from mirrors.kafka.security import ConnectionFacts

SASL_AUTHENTICATION_FAILED = 58


@dataclasses.dataclass
class Refused(Exception):
    """The broker refused the login with a Kafka error number."""

    number: int
    words: str = ""
    mechanisms: tuple[str, ...] = ()


def log_in(facts: ConnectionFacts, authenticate: Callable[[bytes], bytes], seconds: float) -> None:
    """`authenticate` sends our bytes and answers the broker's; else Refused or ValueError."""
    if facts.token is not None:
        _with_token(facts.token.token(deadline_s=seconds).value.reveal(), authenticate)
    elif facts.password is not None:
        password = facts.password.reveal()
        if facts.mechanism == "PLAIN":
            authenticate(f"\0{facts.username}\0{password}".encode())
        else:
            _with_scram(facts, password, authenticate)


def _with_scram(
    facts: ConnectionFacts, password: str, authenticate: Callable[[bytes], bytes]
) -> None:
    scram = ScramClient(scram_name(facts.username), password, facts.mechanism)
    scram.process_server_first_message(authenticate(scram.first_message()))
    scram.process_server_final_message(authenticate(scram.final_message()))


def _with_token(token: str, authenticate: Callable[[bytes], bytes]) -> None:
    answer = authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if answer:
        # RFC 7628: the refusal is data; the error number comes after our acknowledgement.
        authenticate(b"\x01")
        raise Refused(SASL_AUTHENTICATION_FAILED)
