"""A source broker whose replies never come through, in a cluster that is well: said in words."""

from __future__ import annotations

from collections import Counter

import pytest

from controlplane.demo.kafka_cluster import KafkaCluster
from mirrors.domain.errors import KafkaUnavailable
from spark_runner.lanes import source_trouble
from spark_runner.lanes.arena import Arena
from spark_runner.lanes.feeder import Feeder
from spark_runner.wire import fetch
from spark_runner.wire.records import Record
from tests.wire.stops import BIG, NOW, stopped
from tests.wire.world import Flow, Side, bare, unique

PARTITIONS = 3


def test_partitions_of_a_broker_that_cuts_every_reply_stop_and_the_others_go_on(
    three: KafkaCluster, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_trouble, "LEADERLESS_AFTER_S", 1.5)
    source = Side("one", three.bootstrap)
    topic = unique("unread")
    leaders = source.make(topic, PARTITIONS).leaders
    victim = leaders[0].node
    its = {partition for partition, leader in leaders.items() if leader.node == victim}
    assert len(its) < PARTITIONS, "nothing is tested"
    for partition in range(PARTITIONS):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 3)
    read = Feeder.read

    def cut(feeder: Feeder, now: float) -> tuple[Arena, list[fetch.Fetched]]:
        if feeder.node == victim:
            raise KafkaUnavailable("It was cut off.", code="connection_lost")
        return read(feeder, now)

    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    with monkeypatch.context() as patch:
        patch.setattr(Feeder, "read", cut)
        result = stopped(flow, errors=len(its), seconds=15)
    assert result.ended_because == "stop", result
    assert {error.partition for error in result.errors} == its
    assert {(error.state, error.code) for error in result.errors} == {
        ("faulted", "source_unavailable")
    }
    flow.copy()
    for partition in range(PARTITIONS):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
    source.close()


def test_a_broker_that_cuts_some_replies_stops_nothing(
    three: KafkaCluster, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_trouble, "LEADERLESS_AFTER_S", 1.5)
    source = Side("one", three.bootstrap)
    topic = unique("some")
    source.make(topic, PARTITIONS)
    read, seen = Feeder.read, Counter[int]()

    def cut(feeder: Feeder, now: float) -> tuple[Arena, list[fetch.Fetched]]:
        seen[feeder.node] += 1
        if not seen[feeder.node] % 2:
            raise KafkaUnavailable("It was cut off.", code="connection_lost")
        return read(feeder, now)

    monkeypatch.setattr(Feeder, "read", cut)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    result = stopped(flow, errors=1, seconds=6)
    assert (result.ended_because, result.errors) == ("deadline", ()), result
    assert max(seen.values()) > 5, "nothing was tested"
    assert not target.read(remote)
    source.close()
