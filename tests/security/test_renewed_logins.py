"""KIP-368 with every mechanism: a connection of the engine outlives many logins."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.protocol.metadata import MetadataRequest

from mirrors.kafka.protocol import sasl
from mirrors.kafka.security.connection_settings import ConnectionFacts, connection_facts
from spark_runner.kafka_protocol.connection import Connection
from tests.security.secured import MECHANISMS, RENEWED_MS, SecuredBroker

LOGINS = 4


def test_a_login_is_renewed_on_the_connection_that_it_was_made_on(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: Counter[str] = Counter()
    log_in = sasl.log_in

    def counted(
        exchange: Callable[..., object], facts: ConnectionFacts, seconds: float
    ) -> float | None:
        logins[facts.mechanism] += 1
        return log_in(exchange, facts, seconds)

    def ask_for_long(mechanism: str) -> int:
        facts = connection_facts(secured.spec("RENEWED", mechanism))
        until = time.monotonic() + 60
        connection = Connection(facts, *facts.bootstrap[0]).connect(until)
        asked = 0
        try:
            # Without a new login the broker closes the connection at the next question.
            while logins[mechanism] < LOGINS and time.monotonic() < until:
                connection.call(MetadataRequest(topics=[]), until)
                asked += 1
                time.sleep(RENEWED_MS / 10_000)
        finally:
            connection.close()
        return asked

    monkeypatch.setattr(sasl, "log_in", counted)
    with ThreadPoolExecutor(len(MECHANISMS)) as pool:
        asked = list(pool.map(ask_for_long, MECHANISMS))
    assert dict(logins) == dict.fromkeys(MECHANISMS, LOGINS)
    assert min(asked) > LOGINS
