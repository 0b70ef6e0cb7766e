"""One broker does not respond; the others are asked."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from spark_runner.kafka_protocol.cluster import ClusterClient
from tests.wire.proxy import Proxy
from tests.wire.sides import Side, soon, unique

Address = tuple[str, int]
# Less than a connection may take, as for the engine's looks and the planner's.
LOOKUP_S = 0.4


@pytest.fixture
def silent() -> Iterator[list[Address]]:
    """As of hosts that lost their power or hang: nothing is refused, nothing is said."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        yield [one.getsockname() for one in held]


def finds(client: ClusterClient, topic: str) -> bool:
    try:
        return bool(client.describe([topic], soon(LOOKUP_S))[topic].leaders)
    except KafkaUnavailable:
        return False


@pytest.mark.parametrize("count", [1, 2])
def test_who_comes_behind_silent_brokers_is_asked_the_next_time(
    target: Side, silent: list[Address], count: int
) -> None:
    topic = unique("behind")
    target.make(topic)
    client = ClusterClient(target.spec)
    client.brokers = dict(enumerate(silent[:count], start=1000))
    try:
        assert any(finds(client, topic) for _ in range(count + 1))
        assert not client.brokers.keys() & {1000, 1001}, "the cluster names them no more"
    finally:
        client.close()


def test_a_broker_that_fell_silent_while_it_was_asked_is_asked_last(
    target: Side, silent: list[Address]
) -> None:
    topic = unique("fell")
    target.make(topic)
    host, port = target.spec.bootstrap_servers.rsplit(":", 1)
    proxy = Proxy(host, int(port))
    client = ClusterClient(ClusterSpec(alias="two", bootstrap_servers=f"127.0.0.1:{proxy.port}"))
    try:
        assert finds(client, topic)
        known = client.brokers
        # The one that was asked is the first of the list, as its name or its number may have it.
        client.brokers = {1000: ("127.0.0.1", proxy.port), **known}
        proxy.mode = "deaf"
        assert any(finds(client, topic) for _ in range(2))
    finally:
        client.close()
        proxy.close()


def test_brokers_that_were_all_silent_for_a_while_are_asked_in_turn(
    target: Side, silent: list[Address]
) -> None:
    topic = unique("turns")
    target.make(topic)
    host, port = target.spec.bootstrap_servers.rsplit(":", 1)
    proxy = Proxy(host, int(port))
    client = ClusterClient(ClusterSpec(alias="two", bootstrap_servers=f"127.0.0.1:{proxy.port}"))
    client.brokers = dict(enumerate(silent, start=1000))
    proxy.mode = "deaf"
    try:
        assert not any(finds(client, topic) for _ in range(4))
        proxy.mode = "pass"
        assert any(finds(client, topic) for _ in range(3))
    finally:
        client.close()
        proxy.close()
