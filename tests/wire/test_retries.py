"""Replication that stops for a moment continues within the same epoch."""

from __future__ import annotations

import time

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.metadata import Leader, TopicView
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.poller import Selector
from spark_runner.engine.target import leaders
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header
from spark_runner.native.crc32c import address_of
from tests.wire.stops import NOW
from tests.wire.world import Flow, Side, bare, soon, unique

LEADERLESS_S = 1.6  # longer than a partition may wait before its buffers are taken from it


def _connection(side: Side) -> ProduceConnection:
    connection = Connection(side.client._facts, *next(iter(side.client.brokers.values()))).connect(
        soon()
    )
    return ProduceConnection(
        1, connection, transactional_id=None, newest=13, tuning=ProducerSettings(), request_s=5
    )


def test_a_partition_that_had_no_leader_is_read_again_once_it_has_one(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("again")
    source.make(topic, 2)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    for partition in range(2):
        source.write(topic, partition, [Record(0, NOW, b"k", b"v")] * 3)
    until = time.monotonic() + LEADERLESS_S
    plain = leaders.leader_or_error

    def leaderless(
        view: TopicView | None, partition: int, topic_id: bytes, *, recreated: int
    ) -> tuple[Leader | None, int]:
        if partition == 1 and time.monotonic() < until:
            return None, Code.LEADER_NOT_AVAILABLE
        return plain(view, partition, topic_id, recreated=recreated)

    monkeypatch.setattr(leaders, "leader_or_error", leaderless)
    result, _ = flow.copy(seconds=20)
    assert result.ended_because == "stop", result
    assert time.monotonic() > until, "nothing was tested"
    for partition in range(2):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))


def test_a_connection_that_the_cluster_itself_gave_up_is_seen_as_lost(target: Side) -> None:
    connection = _connection(target)
    connection.transport.close()
    assert Selector().wait([connection], 0.0) == [connection]
    with pytest.raises(KafkaUnavailable):
        connection.read(time.monotonic())


def test_what_was_launched_on_a_login_that_fails_comes_back(
    target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = _connection(target)

    def refused(connection: Connection, deadline: float) -> None:
        raise KafkaUnavailable("The login was refused.", code="closed")

    monkeypatch.setattr(Connection, "renew_login", refused)
    with pytest.raises(KafkaUnavailable):
        connection.send({}, time.monotonic())
    assert list(connection.in_flight) == [{}]
    connection.transport.close()


def test_a_batch_without_records_moves_no_position_past_what_is_on_its_way() -> None:
    partition = Partition("orders", 0, "primary.orders")
    in_flight, empty = (_pending_batch(first) for first in (0, 3))
    partition.sent(in_flight)
    partition.skip_batch(empty)
    assert (partition.acknowledged_offset, partition.has_moved) == (0, False)
    partition.answered()
    partition.acknowledge(in_flight, 0)
    assert partition.acknowledged_offset == 6


def _pending_batch(first: int) -> PendingBatch:
    rows = [Record(first + at, NOW, b"k", b"v") for at in range(3)]
    batch = encode_batch(rows, codec=0, base=first)
    view = memoryview(batch)
    return PendingBatch(None, view, 0, address_of(batch), read_header(view), "")
