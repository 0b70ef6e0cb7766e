"""The two clusters of a flow, with or without proxies before them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from controlplane.bench.distance.relay import Relay, build
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.kafka.cluster import KafkaCluster
from controlplane.demo.kafka.server_properties import Listener
from controlplane.demo.processes.guard import Guard
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.sockets import Target
from tests.wire.far import far_away
from tests.wire.proxy import Proxy
from tests.wire.sides import Side


@pytest.fixture(scope="module")
def source(primary: str) -> Iterator[Side]:
    side = Side("one", primary)
    yield side
    side.close()


@pytest.fixture(scope="module")
def target(backup: str) -> Iterator[Side]:
    side = Side("two", backup)
    yield side
    side.close()


@pytest.fixture
def trusting(target: Side) -> Iterator[None]:
    """The broker does not ask the coordinator whether a partition is in the transaction."""
    verify = "transaction.partition.verification.enable"
    (node,) = target.client.brokers

    def let(value: str) -> None:
        entry = ConfigEntry(verify, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("broker", str(node), incremental_configs=[entry])
        admin = Admin(target.spec)
        admin.client.incremental_alter_configs([resource])[resource].result(20)

    let("false")
    yield
    let("true")


PASSWORD = "correct horse"
LOGIN_MS = 2000
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LOGIN = "listener.name.login."
_ODD = {
    # Lets everybody in where there is no rule.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    # Keeps no fetch session at all.
    "max.incremental.fetch.session.cache.slots": "0",
    # Looks at once for what has become too old, and not every five minutes.
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    # Wants a new login every two seconds at its second listener.
    f"{_LOGIN}sasl.enabled.mechanisms": "PLAIN",
    f"{_LOGIN}plain.sasl.jaas.config": f'{_PLAIN} required user_copier="{PASSWORD}";',
    f"{_LOGIN}plain.connections.max.reauth.ms": str(LOGIN_MS),
    f"{_LOGIN}connection.failed.authentication.delay.ms": "20",
}


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaBroker]:
    """A broker with settings that no other one has, each for a file of its own; once a session."""
    broker = KafkaBroker(
        tmp_path_factory.mktemp("odd"),
        name="odd",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
        listeners=[Listener(name="LOGIN", protocol="SASL_PLAINTEXT")],
        properties=_ODD,
    )
    try:
        yield broker.start()
    finally:
        broker.kill()


@pytest.fixture
def odd_side(odd: KafkaBroker) -> Iterator[Side]:
    side = Side("odd", odd.bootstrap)
    yield side
    side.close()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaCluster]:
    """A cluster of three brokers, whole at the beginning of each file."""
    cluster = KafkaCluster(
        tmp_path_factory.mktemp("three"),
        name="three",
        heap="256m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        yield cluster.start()
    finally:
        cluster.kill()


@pytest.fixture
def proxies(
    primary: str, backup: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Proxy, Proxy]]:
    """Between the engine and both brokers; the tests' own connections go past them."""
    found = {}
    for address in (primary, backup):
        host, port = address.rsplit(":", 1)
        found[int(port)] = Proxy(host, int(port))

    resolve = sockets.resolve

    def through(host: str, port: int, deadline: float) -> list[Target]:
        return resolve(host, found[port].port if _is_engine() else port, deadline)

    monkeypatch.setattr(sockets, "resolve", through)
    yield tuple(found.values())  # type: ignore[misc]
    for proxy in found.values():
        proxy.close()


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The relay of the benchmark, compiled."""
    return build(tmp_path_factory.mktemp("relay"))


@pytest.fixture
def relays(
    program: Path, primary: str, backup: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Relay, ...]]:
    """Both brokers are far away from the engine."""
    with far_away(program, (primary, backup), monkeypatch) as found:
        yield found


def _is_engine() -> bool:
    return threading.current_thread().name == "engine"
