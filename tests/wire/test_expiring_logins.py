"""KIP-368: a broker requires a new login every two seconds; replication continues."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.sockets import Target
from mirrors.kafka.security.connection_settings import connection_facts
from spark_runner.kafka_protocol.connection import Connection
from tests.wire.conftest import LOGIN_MS, PASSWORD
from tests.wire.running import PARTITIONS, Running
from tests.wire.world import Flow, Side, bare, unique


@pytest.fixture
def login(odd: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("KAFKA_WIRE_PASSWORD", PASSWORD)
    monkeypatch.setenv("KAFKA_WIRE_WRONG", "battery staple")
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "copier",
        "sasl_password": "env:KAFKA_WIRE_PASSWORD",
    }


def test_a_wrong_password_is_said_in_one_sentence(odd: KafkaBroker, login: dict[str, str]) -> None:
    wrong = login | {"sasl_password": "env:KAFKA_WIRE_WRONG"}
    spec = ClusterSpec(alias="a", bootstrap_servers=odd.bootstrap_of("LOGIN"), **wrong)  # type: ignore[arg-type]
    host, port = spec.bootstrap_servers.rsplit(":", 1)
    with pytest.raises(KafkaRefused, match="rejected the login") as refused:
        Connection(connection_facts(spec), host, int(port)).connect(time.monotonic() + 10)
    assert refused.value.code == "authentication"
    assert "battery" not in refused.value.message


def test_the_copy_outlives_many_logins(
    odd: KafkaBroker, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[float] = []

    resolve = sockets.resolve

    def counted(*address: Any) -> list[Target]:
        if threading.current_thread().name == "engine":
            opened.append(time.monotonic())
        return resolve(*address)

    monkeypatch.setattr(sockets, "resolve", counted)
    # The test itself goes by the other listener: only the engine has to log in.
    source, target = Side("one", odd.bootstrap), Side("two", odd.bootstrap)
    topic = unique("expiring")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="100")
    remote = flow.add(topic)
    address = odd.bootstrap_of("LOGIN")
    flow.spec = ClusterSpec(alias=flow.alias, bootstrap_servers=address, **login)  # type: ignore[arg-type]
    target.spec = ClusterSpec(alias="two", bootstrap_servers=address, **login)  # type: ignore[arg-type]
    with Running(flow, topic) as running:
        running.write(int(LOGIN_MS * 4 / 60), pause=0.02)
        running.caught_up()
        ended = time.monotonic()
    for partition in range(PARTITIONS):
        copied = bare(target.read(remote, partition))
        assert copied == bare(source.read(topic, partition))
        assert len(copied) > 50
    late = [moment for moment in opened if moment > opened[0] + LOGIN_MS / 1000]
    # Without a login each of them is lost each time; one may be while its thread is not run.
    assert ended - opened[0] > 3 * LOGIN_MS / 1000
    assert len(late) <= 1, "connections were lost instead of logged in again"
