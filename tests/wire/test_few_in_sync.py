"""A real partition with fewer replicas in sync than it asks for: it waits, the others go on."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import NewTopic

from controlplane.demo.kafka_cluster import KafkaCluster
from mirrors.kafka.admin import Admin
from spark_runner.lanes import members, raw
from spark_runner.wire.cluster import id_text
from spark_runner.wire.records import Record
from spark_runner.work import PartitionWork
from tests.wire.running import Running
from tests.wire.stops import NOW
from tests.wire.test_unclean_elections import partition_of, wait_for
from tests.wire.world import Flow, Side, bare, soon, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
REFUSED_S = 15.0


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


def test_it_waits_through_many_commits_of_others_and_of_nobody_and_then_goes_on(
    three: KafkaCluster, source: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A transaction in which all was refused outlives its time limit unless it is ended.
    monkeypatch.setattr(raw, "TRANSACTION_TIMEOUT_MS", 5_000)
    monkeypatch.setattr(members, "OPEN_S", 1.0)
    lacking, fine = unique("lacking"), unique("fine")
    for topic in (lacking, fine):
        source.make(topic)
    target = Side("two", three.bootstrap)
    flow = Flow(source, target, replicas=3, commit_interval_ms="100")
    held, free = add(flow, lacking, [2, 3]), add(flow, fine, [1, 2, 3])
    admin = Admin(target.spec)
    for topic in (lacking, fine):
        source.write(topic, 0, records("before"))
    running = Running(flow, fine, seconds=200)
    with running:
        running.caught_up()
        three.brokers[2].kill()
        wait_for(lambda: partition_of(admin, held).isrs == [2], "a replica fell out")
        source.write(lacking, 0, records("refused"))
        source.write(fine, 0, records("meanwhile"))
        wait_for(lambda: running.driver.position(fine, 0) == 20, "the other one goes on")
        until = time.monotonic() + REFUSED_S
        while time.monotonic() < until:
            assert running.result is None, running.result
            time.sleep(0.2)
        assert running.driver.position(lacking, 0) == 10
        three.brokers[2].launch()
        three.brokers[2].wait()
        running.caught_up()
    assert running.result is not None
    assert running.result.ended_because == "stop", running.result
    assert running.result.errors == ()
    for topic, remote in ((lacking, held), (fine, free)):
        assert bare(target.read(remote)) == bare(source.read(topic))
        assert len(target.read(remote)) == 20
    target.close()
