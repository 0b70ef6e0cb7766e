"""A real remote partition with fewer in-sync replicas than it requires."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewTopic

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.ipc.messages import PartitionWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.replicas import partition_of, wait_for
from tests.wire.running import Running
from tests.wire.stops import NOW
from tests.wire.world import Flow, Side, bare, soon, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


def add(flow: Flow, topic: str, replicas: list[int]) -> str:
    """Copy a topic of one partition to replicas that are chosen, of which two must be in sync."""
    name = f"{flow.alias}.{topic}"
    configs = {"min.insync.replicas": "2", "retention.ms": "-1"}
    new = NewTopic(name, 1, replica_assignment=[replicas], config=configs)
    admin = Admin(flow.target.spec)
    admin.client.create_topics([new])[name].result(30)
    flow.rows.append(
        PartitionWork(
            topic=topic,
            topic_id=id_text(flow.source.client.describe([topic], soon())[topic].topic_id),
            partition=0,
            remote_topic=name,
            remote_topic_id=id_text(flow.target.view(name).topic_id),
            start=0,
            remote_configs=configs,
        )
    )
    return name


def records(stem: str) -> list[Record]:
    return [Record(0, NOW, f"{stem}-{number}".encode(), b"v" * 2_000) for number in range(10)]


class UnderReplicatedFlow:
    """A flow with a partition that lacks a replica from some moment on, and one that does not."""

    def __init__(self, three: KafkaCluster, source: Side, **properties: str) -> None:
        self._dies = three.brokers[2]
        self._lacking, self._fine = unique("lacking"), unique("fine")
        self._source = source
        for topic in (self._lacking, self._fine):
            source.make(topic)
        self.target = Side("two", three.bootstrap)
        self.flow = Flow(source, self.target, replicas=3, commit_interval_ms="100", **properties)
        self._remote = add(self.flow, self._lacking, [2, 3]), add(self.flow, self._fine, [1, 2, 3])
        self._write("before")
        self.running = Running(self.flow, self._fine, seconds=200)

    def _write(self, stem: str) -> None:
        for topic in (self._lacking, self._fine):
            self._source.write(topic, 0, records(stem))

    def lose_a_replica(self) -> None:
        self._dies.kill()
        admin = Admin(self.target.spec)
        wait_for(lambda: partition_of(admin, self._remote[0]).isrs == [2], "a replica fell out")
        self._write("meanwhile")

    def bring_it_back(self) -> None:
        self._dies.launch()
        self._dies.wait()

    def positions(self) -> tuple[int, int]:
        driver = self.running.driver
        return driver.position(self._lacking, 0), driver.position(self._fine, 0)

    def check(self) -> None:
        """All is there, once."""
        for topic, remote in zip((self._lacking, self._fine), self._remote, strict=True):
            assert bare(self.target.read(remote)) == bare(self._source.read(topic))
            assert len(self.target.read(remote)) == 20
        self.target.close()


def test_at_least_once_it_waits_alone(three: KafkaCluster, source: Side) -> None:
    world = UnderReplicatedFlow(three, source, delivery="at_least_once")
    with world.running as running:
        running.caught_up()
        world.lose_a_replica()
        wait_for(lambda: world.positions() == (10, 20), "the other one goes on")
        world.bring_it_back()
        running.caught_up()
    assert running.result is not None
    assert (running.result.ended_because, running.result.errors) == ("stop", ())
    world.check()


def test_exactly_once_its_slice_waits_says_why_and_goes_on_with_nothing_lost_or_doubled(
    three: KafkaCluster, source: Side
) -> None:
    """A transaction that wrote it cannot be ended there, and has to be before there is another."""
    world = UnderReplicatedFlow(three, source)
    with world.running as running:
        running.caught_up()
        world.lose_a_replica()
        wait_for(lambda: running.result is not None, "the slice says why it waits")
    assert running.result is not None
    assert (running.result.ended_because, running.result.code) == ("failed", "busy")
    assert "min.insync.replicas" in running.result.reason
    world.bring_it_back()
    result, _ = world.flow.copy(seconds=60)
    assert (result.ended_because, result.errors) == ("stop", ())
    world.check()
