"""A flow that has just begun to write, on a cluster whose brokers hear of its topics one by one."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from controlplane.demo.kafka_cluster import KafkaCluster
from mirrors.domain.runs import is_runs_topic, runs_topic
from spark_runner.lanes.replicated import Replicated
from spark_runner.wire.connection import Connection
from tests.wire.world import Side, soon, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.parametrize("dies", [False, True])
def test_runs_are_found_although_the_broker_that_we_ask_does_not_know_of_them_yet(
    three: KafkaCluster, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    side = Side("many", three.bootstrap)
    client = side.client
    hears_late = client._any(soon()).port
    name = leads_elsewhere(side, hears_late)
    if dies:
        leader = client.describe([name], soon())[name].leaders[0].node
        others = {address[1] for node, address in client.brokers.items() if node != leader}
        (other,) = others - {hears_late}
        next(broker for broker in three.brokers if broker.port == other).kill()
    call = Connection.call

    def late(link: Connection, request: Any, *args: Any, **named: Any) -> Any:
        reply = call(link, request, *args, **named)
        if isinstance(request, MetadataRequest) and link.port == hears_late:
            reply.topics = [row for row in reply.topics if not is_runs_topic(row.name)]
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "call", late)
        assert name not in client.describe_all(soon())
        replicated = Replicated(client, [])
        replicated._list(soon(20))
        assert name in replicated._tails
    side.close()


def leads_elsewhere(side: Side, port: int) -> str:
    """A topic of runs that another broker leads."""
    while True:
        name = runs_topic(unique("other").replace(".", ""))
        leader = side.make(name).leaders[0].node
        if side.client.brokers[leader][1] != port:
            return name
