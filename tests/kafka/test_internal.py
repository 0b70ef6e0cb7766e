"""Internal topics: read to the true end, across markers and aborts; written to Java's partition."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.internal_topics.records import Position, SliceCount
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.kafka.internal_topics.topic import NewRecord, append, read_to_end
from spark_runner.planning.mm2_import import mm2_positions
from spark_runner.positions.mm2_export import ConnectOffsetsWriter

MakeTopic = Callable[..., str]
GOLDEN = Path(__file__).parent.parent / "golden" / "connect_offsets_keys.json"


def transactional(cluster: ClusterSpec) -> Producer:
    extra = {"transactional.id": f"understudy.test.{uuid.uuid4().hex[:8]}"}
    producer = Producer(client_config(cluster, client_id="test", role="producer", extra=extra))
    producer.init_transactions(20)
    return producer


def test_what_was_appended_is_read_back_in_order_with_nulls(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic(2, {"cleanup.policy": "compact"})
    rows = [
        NewRecord(b"a", b"1", 0),
        NewRecord(b"b", None, 0),
        NewRecord(b"c", b"", 1),
        NewRecord(b"a", b"2", 0),
    ]
    assert append(cluster, name, rows) == 4
    read = [(one.partition, one.key, one.value) for one in read_to_end(admin, name)]
    assert read == [(0, b"a", b"1"), (0, b"b", None), (0, b"a", b"2"), (1, b"c", b"")]


def test_an_empty_topic_and_an_absent_one_have_no_records(admin: Admin, topic: MakeTopic) -> None:
    assert read_to_end(admin, topic(3)) == []
    assert read_to_end(admin, f"absent-{uuid.uuid4().hex}") == []


def test_aborted_records_are_hidden_and_trailing_markers_do_not_hang_the_reader(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, producer = topic(), transactional(cluster)
    for value, commit in ((b"kept", True), (b"dropped", False)):
        producer.begin_transaction()
        producer.produce(name, value, b"k", 0)
        producer.flush(20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    started = time.monotonic()
    assert [one.value for one in read_to_end(admin, name)] == [b"kept"]
    assert time.monotonic() - started < 5
    everything = [one.value for one in read_to_end(admin, name, committed=False)]
    assert everything == [b"kept", b"dropped"]


def test_an_open_transaction_hides_what_follows_it(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, producer = topic(), transactional(cluster)
    append(cluster, name, [NewRecord(b"k", b"before", 0)])
    producer.begin_transaction()
    producer.produce(name, b"open", b"k", 0)
    producer.flush(20)
    append(cluster, name, [NewRecord(b"k", b"after", 0)])
    assert [one.value for one in read_to_end(admin, name)] == [b"before"]
    producer.abort_transaction(20)


def test_records_since_a_moment_are_read_alone(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic()
    append(cluster, name, [NewRecord(b"k", b"old", 0)])
    time.sleep(0.05)
    moment = int(time.time() * 1000)
    append(cluster, name, [NewRecord(b"k", b"new", 0)])
    assert [one.value for one in read_to_end(admin, name, since=moment)] == [b"new"]
    assert read_to_end(admin, name, since=moment + 60_000) == []


def test_a_refused_record_is_an_error_with_its_topic(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic(1, {"max.message.bytes": "1000"})
    with pytest.raises(KafkaRefused, match=f"cannot write {name}"):
        append(cluster, name, [NewRecord(b"k", bytes(5000), 0)])


def test_a_cluster_that_is_down_takes_no_records_in_time() -> None:
    down = ClusterSpec(alias="gone", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaUnavailable, match="in time"):
        append(down, "any", [NewRecord(b"k", b"v", 0)], deadline_s=1.5)


def test_positions_are_the_last_of_each_partition(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic()

    def position(partition: int, at: int) -> Position:
        return Position(
            topic="orders",
            partition=partition,
            position=at,
            source_cluster="s",
            source_topic_id="i",
            target_cluster="t",
            target_topic_id="j",
        )

    rows = [position(0, 5), position(1, 8), position(0, 9), SliceCount(3)]
    append(cluster, name, [NewRecord(row.key, row.value, 0) for row in rows])
    append(cluster, name, [NewRecord(b"strange", b"bytes", 0)])
    found = read_positions(admin, name)
    assert found.positions == {("orders", 0): position(0, 9), ("orders", 1): position(1, 8)}
    assert (found.slices, found.unreadable) == (3, 1)


def test_mm2_offsets_go_where_java_looks_and_ours_are_told_from_its_own(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic(25, {"cleanup.policy": "compact"})
    positions = {("topic1", 0): 42, ("topic1", 1): 8, ("orders", 3): 1}
    ConnectOffsetsWriter(cluster, name, "A").write(positions, deadline_s=20)
    found = read_to_end(admin, name)
    first = next(one for one in found if one.value == b'{"offset":41}')
    assert first.key == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"topic1"}]'
    assert first.partition == 2
    assert mm2_positions(found, "A") == {}
    as_its_own = [dataclasses.replace(one, headers=()) for one in found]
    assert mm2_positions(as_its_own, "A") == positions
    assert mm2_positions(as_its_own, "B") == {}


def test_keys_without_a_partition_go_where_a_java_producer_puts_them(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    """MM2's own keys with the partitions that Java chose for them."""
    name, cases = topic(25), json.loads(GOLDEN.read_text())["cases"]
    rows = {bytes.fromhex(case["key"]): case["partition_of_25"] for case in cases}
    assert rows
    append(cluster, name, [NewRecord(key, b"v") for key in rows])
    own = {"group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(client_config(cluster, client_id="test", role="consumer", extra=own))
    consumer.assign([TopicPartition(name, number, 0) for number in range(25)])
    found, ended = {}, 0
    while ended < 25:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found[message.key()] = message.partition()
    consumer.close()
    assert found == rows
