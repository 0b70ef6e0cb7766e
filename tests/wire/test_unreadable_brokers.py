"""A source broker that does not return its records, in a healthy cluster: reported with a reason.

Its replies never arrive, or it has an internal error (-1). Java's consumer and the replicas retry
without limit; a flow reports it after a while.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from controlplane.demo.kafka.cluster import KafkaCluster
from controlplane.demo.processes.guard import Guard
from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.record_lane.consumer import RecordConsumer
from spark_runner.engine.source import errors
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, LANES, NOW, only_error, stopped
from tests.wire.world import Flow, Side, bare, unique

PARTITIONS = 3


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaCluster]:
    """One that will not be read, and another one."""
    cluster = KafkaCluster(
        tmp_path_factory.mktemp("pair"),
        brokers=2,
        name="pair",
        heap="256m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        yield cluster.start()
    finally:
        cluster.kill()


def test_partitions_of_a_broker_that_cuts_every_reply_stop_and_the_others_go_on(
    brokers: KafkaCluster, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "LEADERLESS_AFTER_S", 1.5)
    source = Side("one", brokers.bootstrap)
    topic = unique("unread")
    leaders = source.make(topic, PARTITIONS).leaders
    victim = leaders[0].node
    its = {partition for partition, leader in leaders.items() if leader.node == victim}
    assert len(its) < PARTITIONS, "nothing is tested"
    for partition in range(PARTITIONS):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 3)
    read = FetchConnection.read

    def cut(
        connection: FetchConnection, now: float
    ) -> tuple[ReceiveBuffer, list[fetch.PartitionData]]:
        if connection.connection_id[0] == victim:
            raise KafkaUnavailable("It was cut off.", code="connection_lost")
        return read(connection, now)

    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    with monkeypatch.context() as patch:
        patch.setattr(FetchConnection, "read", cut)
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
    brokers: KafkaCluster, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "LEADERLESS_AFTER_S", 1.5)
    source = Side("one", brokers.bootstrap)
    topic = unique("some")
    source.make(topic, PARTITIONS)
    read, seen = FetchConnection.read, Counter[int]()

    def cut(
        connection: FetchConnection, now: float
    ) -> tuple[ReceiveBuffer, list[fetch.PartitionData]]:
        seen[connection.connection_id[0]] += 1
        if not seen[connection.connection_id[0]] % 2:
            raise KafkaUnavailable("It was cut off.", code="connection_lost")
        return read(connection, now)

    monkeypatch.setattr(FetchConnection, "read", cut)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    result = stopped(flow, errors=1, seconds=6)
    assert (result.ended_because, result.errors) == ("deadline", ()), result
    assert max(seen.values()) > 5, "nothing was tested"
    assert not target.read(remote)
    source.close()


class ConsumerError(SimpleNamespace):
    """What librdkafka hands out in the place of a message of partition 0."""

    def __init__(self, topic: str) -> None:
        said = {
            "topic": topic,
            "partition": 0,
            "error": KafkaError(KafkaError.UNKNOWN),
            "key": None,
        }
        super().__init__(**{name: partial(one, value) for name, value in said.items()})

    def __len__(self) -> int:
        return 0


def one(value: object) -> object:
    return value


def meets_errors(patch: pytest.MonkeyPatch, topic: str, until: float) -> list[float]:
    """Of partition 0 its broker has nothing but an error of its own up to that moment; when."""
    moments: list[float] = []

    def is_met() -> bool:
        moments.append(time.monotonic())
        return moments[-1] < until

    read, poll = FetchConnection.read, RecordConsumer.read

    def read_raw(
        connection: FetchConnection, now: float
    ) -> tuple[ReceiveBuffer, list[fetch.PartitionData]]:
        buffer, rows = read(connection, now)
        return buffer, [
            row._replace(error=int(Code.UNKNOWN_SERVER_ERROR), start=0, stop=0)
            if row.partition == 0 and is_met()
            else row
            for row in rows
        ]

    kept: list[Any] = []

    def read_records(reader: RecordConsumer, *how: Any) -> list[Any]:
        trouble = ConsumerError(topic)
        found = [*kept, *poll(reader, *how)]
        kept[:] = [message for message in found if message.partition() == 0]
        if kept and is_met():
            return [trouble, *(message for message in found if message.partition() != 0)]
        kept.clear()
        return found

    patch.setattr(FetchConnection, "read", read_raw)
    patch.setattr(RecordConsumer, "read", read_records)
    return moments


def two_of(source: Side, target: Side) -> tuple[Flow, str, str]:
    topic = unique("own-error")
    source.make(topic, 2)
    for partition in range(2):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 3)
    flow = Flow(source, target, commit_interval_ms="50")
    return flow, topic, flow.add(topic)


@pytest.mark.parametrize("lane", LANES)
def test_an_error_of_the_broker_s_own_that_passes_stops_nothing(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    flow, topic, remote = two_of(source, target)
    began = time.monotonic()
    moments = meets_errors(monkeypatch, topic, began + 2)
    result, _ = flow.copy(LANES[lane](), seconds=20)
    assert len(moments) > 3, "nothing was tested"
    assert (result.ended_because, result.errors) == ("stop", ()), result
    for partition in range(2):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))


@pytest.mark.parametrize("lane", LANES)
def test_an_error_of_the_broker_s_own_that_stays_stops_its_partition_in_words(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    monkeypatch.setattr(errors, "UNREADABLE_AFTER_S", 2.0)
    flow, topic, remote = two_of(source, target)
    meets_errors(monkeypatch, topic, time.monotonic() + 60)
    error = only_error(stopped(flow, lane, seconds=15))
    assert (error.partition, error.state, error.code) == (0, "faulted", "unreadable")
    assert "its broker returned an internal error for 2 s" in error.reason
    assert bare(target.read(remote, 1)) == bare(source.read(topic, 1))
