"""A flow has just begun to write on a cluster whose brokers receive its metadata one by one."""

from __future__ import annotations

import mmap
import os
import signal
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.offsets.runs import is_runs_topic, runs_topic
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.source import replicated_filter
from spark_runner.engine.source.replicated_filter import FetchedBatches, ReplicatedFilter
from spark_runner.kafka_protocol.batch_header import TRANSACTIONAL, BatchStamper
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header
from tests.wire.world import Side, soon, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.parametrize("dies", [False, True])
def test_runs_are_found_although_the_broker_that_we_ask_does_not_know_of_them_yet(
    three: KafkaCluster, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    side = Side("many", three.bootstrap)
    client = side.client
    hears_late = client._any_connection(soon()).port
    name = leads_elsewhere(side, hears_late)
    if dies:
        leader = client.describe([name], soon())[name].leaders[0].node
        others = {address[1] for node, address in client.brokers.items() if node != leader}
        (other,) = others - {hears_late}
        next(broker for broker in three.brokers if broker.port == other).kill()
    with monkeypatch.context() as patch:
        hear_late(patch, {hears_late})
        assert name not in client.describe_all(soon())
        replicated = ReplicatedFilter(client, [])
        replicated._list_runs_topics(soon(20))
        assert name in replicated._tails
    side.close()


def test_nobody_is_a_stranger_while_the_broker_that_would_know_him_is_silent(
    three: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for one, his copies would be copied back for as long as the epoch lasts."""
    for broker in three.brokers:
        if not broker.alive:
            broker.restart()
    side = Side("many", three.bootstrap)
    client = side.client
    asked = client._any_connection(soon()).port
    name = leads_elsewhere(side, asked)
    node = client.describe([name], soon())[name].leaders[0].node
    port = client.brokers[node][1]
    (leader,) = (broker for broker in three.brokers if broker.port == port)
    assert leader.process is not None
    partition = Partition("t", 0, "s.t", source_id=side.make(unique("read")).topic_id)
    part = written_by(4711, partition)
    with monkeypatch.context() as patch:
        hear_late(patch, {address[1] for address in client.brokers.values()} - {port})
        replicated = ReplicatedFilter(client, [partition])
        os.kill(leader.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(KafkaUnavailable, match="a broker does not list"):
                replicated.find_replicated([part])
        finally:
            os.kill(leader.process.pid, signal.SIGCONT)
        replicated.find_replicated([part])
        assert name in replicated._tails
        # A failed broker that metadata still lists is not waited for without limit.
        patch.setattr(replicated_filter, "SILENT_S", 0.0)
        os.kill(leader.process.pid, signal.SIGSTOP)
        try:
            replicated._tails.clear()
            assert replicated.find_replicated([written_by(4712, partition)]) == {}
        finally:
            os.kill(leader.process.pid, signal.SIGCONT)
    side.close()


def written_by(producer: int, partition: Partition, *, at: int = 0) -> FetchedBatches:
    """A reply with one batch of a transaction."""
    batch = encode_batch([Record(0, 5, b"k", b"v")])
    pen = BatchStamper(transactional=True)
    pen.take(producer, 0)
    pen.write(memoryview(batch), 0, read_header(memoryview(batch)), partition.sequences)
    assert read_header(memoryview(batch)).attributes & TRANSACTIONAL
    memory = mmap.mmap(-1, 1 << 12)
    memory[: len(batch)] = bytes(batch)
    memory[:8] = at.to_bytes(8, "big")
    return FetchedBatches(partition, ReceiveBuffer(memory), 0, len(batch))


def hear_late(patch: pytest.MonkeyPatch, ports: set[int]) -> None:
    """These brokers have not heard of any topic of runs yet."""
    call = Connection.call

    def late(connection: Connection, request: Any, *args: Any, **named: Any) -> Any:
        reply = call(connection, request, *args, **named)
        if isinstance(request, MetadataRequest) and connection.port in ports:
            reply.topics = [row for row in reply.topics if not is_runs_topic(row.name)]
        return reply

    patch.setattr(Connection, "call", late)


def leads_elsewhere(side: Side, port: int) -> str:
    """A topic of runs that another broker leads."""
    while True:
        name = runs_topic(unique("other").replace(".", ""))
        leader = side.make(name).leaders[0].node
        if side.client.brokers[leader][1] != port:
            return name
