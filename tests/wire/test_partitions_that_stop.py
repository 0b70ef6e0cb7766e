"""One bad partition stops alone, with numbers and a reason; nothing is skipped, others go on."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import spark_runner.lanes.intake
from mirrors.kafka.admin import Admin
from spark_runner.lanes.raw import RawCopier
from spark_runner.lanes.record import RecordLane
from spark_runner.wire import codecs
from spark_runner.wire.cluster import id_text
from spark_runner.wire.records import Record
from spark_runner.work import PartitionError, SliceResult
from tests.wire.world import Driver, Flow, Side, bare, soon, unique

NOW = int(time.time() * 1000)
BIG = b"v" * 15_000  # not to be merged with its neighbours
LARGE = random.Random(1).randbytes(60_000)  # in whatever codec
TWO_HOURS = 7_200_000
LANES = {"raw": RawCopier, "record": RecordLane}
each_lane = pytest.mark.parametrize("lane", LANES)


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


def alter(side: Side, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    admin = Admin(side.spec)
    admin.client.incremental_alter_configs([resource])[resource].result(20)


def delete(side: Side, topic: str) -> None:
    admin = Admin(side.spec)  # the futures die with it
    admin.client.delete_topics([topic], operation_timeout=20)[topic].result(30)


def stopped(flow: Flow, lane: str = "raw", *, errors: int = 1, seconds: float = 30) -> SliceResult:
    """Run until so many partitions have stopped and all the others are at their end."""
    ends = flow.ends()

    def done(driver: Driver) -> bool:
        found = {(error.topic, error.partition) for row in driver.figures for error in row.errors}
        rest = ends.keys() - found
        return len(found) >= errors and all(
            driver.position(*place) >= ends[place] for place in rest
        )

    return LANES[lane]().run(flow.work(seconds=seconds), Driver(until=done))  # type: ignore[arg-type, no-any-return]


def only_error(result: SliceResult) -> PartitionError:
    assert result.ended_because == "stop", result
    assert len(result.errors) == 1
    return result.errors[0]


def two_partitions(source: Side, target: Side, **remote: str) -> tuple[Flow, str, str]:
    topic = unique("stops")
    source.make(topic, 2, message_timestamp_after_max_ms=str(2**63 - 1))
    flow = Flow(source, target, commit_interval_ms="50")
    return flow, topic, flow.add(topic, **remote)


def refused_in_the_middle(source: Side, topic: str, bad: Record) -> None:
    """Three good batches on both sides of a bad one in partition 0; partition 1 is all good."""
    good = Record(0, NOW, b"key", BIG)
    for _ in range(3):
        source.write(topic, 0, [good] * 2)
    source.write(topic, 0, [good, bad, good])
    for _ in range(3):
        source.write(topic, 0, [good] * 2)
        source.write(topic, 1, [good] * 4)


def check_stop(flow: Flow, topic: str, remote: str, error: PartitionError, offset: int) -> None:
    assert (error.topic, error.partition) == (topic, 0)
    assert error.offset == offset
    assert str(offset) in error.reason
    assert bare(flow.target.read(remote, 1)) == bare(flow.source.read(topic, 1))
    copied, wanted = bare(flow.target.read(remote, 0)), bare(flow.source.read(topic, 0))
    assert copied == wanted[: len(copied)]
    assert len(copied) == offset, "all before it has crossed, also what was in its batch"


def test_a_timestamp_in_the_future(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    refused_in_the_middle(source, topic, Record(0, NOW + TWO_HOURS, b"k", b"bad"))
    error = only_error(stopped(flow))
    assert error.code == "timestamp"
    assert "message.timestamp.after.max.ms" in error.reason
    check_stop(flow, topic, remote, error, 7)


@each_lane
def test_a_record_without_a_key_for_a_compacted_topic(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote = two_partitions(source, target, cleanup_policy="compact")
    refused_in_the_middle(source, topic, Record(0, NOW, None, b"bad"))
    error = only_error(stopped(flow, lane))
    assert error.code == "invalid_record"
    assert "compacted" in error.reason
    assert "broker" in error.reason
    check_stop(flow, topic, remote, error, 7)


def test_a_record_larger_than_the_target_takes(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target, max_message_bytes="40000")
    refused_in_the_middle(source, topic, Record(0, NOW, b"k", LARGE))
    error = only_error(stopped(flow))
    assert error.code == "too_large"
    assert "max.message.bytes" in error.reason
    check_stop(flow, topic, remote, error, 7)


@each_lane
def test_a_limit_that_was_lowered_behind_the_plan_is_met_at_the_one_record(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote = two_partitions(source, target)
    flow.rows = [dataclasses.replace(row, remote_configs={}) for row in flow.rows]
    alter(target, remote, "max.message.bytes", "40000")
    refused_in_the_middle(source, topic, Record(0, NOW, b"k", LARGE))
    error = only_error(stopped(flow, lane))
    assert error.code == "too_large"
    for part in (topic, remote, "offset 7", "max.message.bytes", "broker"):
        assert part in error.reason
    check_stop(flow, topic, remote, error, 7)


def odd_topic(source: Side, target: Side) -> tuple[Flow, str, str]:
    """The second record has a timestamp of 0, in partition 1 a header name that is not UTF-8."""
    flow, topic, remote = two_partitions(source, target)
    fine = Record(0, NOW, b"k", b"fine")
    source.write(topic, 0, [fine, Record(0, 0, b"k", b"first of all"), fine])
    source.write(topic, 1, [fine, Record(0, NOW, b"k", b"v", [(b"\xff\xfe", b"v")]), fine])
    return flow, topic, remote


def test_the_raw_lane_copies_what_the_record_lane_cannot_carry(source: Side, target: Side) -> None:
    flow, topic, remote = odd_topic(source, target)
    result, _ = flow.copy()
    assert result.errors == ()
    for partition in range(2):
        copied = bare(target.read(remote, partition))
        assert copied == bare(source.read(topic, partition))
        assert len(copied) == 3


def test_the_record_lane_stops_before_what_it_cannot_carry(source: Side, target: Side) -> None:
    flow, _, remote = odd_topic(source, target)
    result = stopped(flow, "record", errors=2)
    found = {error.partition: (error.code, error.offset) for error in result.errors}
    assert found == {0: ("timestamp_zero", 1), 1: ("header_name", 1)}
    assert [len(target.read(remote, partition)) for partition in range(2)] == [1, 1]


def test_a_batch_damaged_in_memory_is_never_passed_on(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = two_partitions(source, target)
    refused_in_the_middle(source, topic, Record(0, NOW, b"k", b"fine"))
    original = spark_runner.lanes.intake.scan

    def flip_a_bit(track: Any, arena: Any, *rest: Any) -> int:
        found = original(track, arena, *rest)
        for parcel in track.queue:
            if parcel.first == 6 and track.partition == 0:
                arena.view[parcel.at + 100] ^= 0x10
        return found

    monkeypatch.setattr(spark_runner.lanes.intake, "scan", flip_a_bit)
    error = only_error(stopped(flow))
    assert error.code == "corrupt_source"
    check_stop(flow, topic, remote, error, 6)
    monkeypatch.undo()
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote, 0)) == bare(source.read(topic, 0))


def test_deleted_records_are_a_gap_with_its_numbers(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    for partition in (0, 1):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    flow.copy()
    for partition in (0, 1):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    admin = Admin(source.spec)
    place = TopicPartition(topic, 0, 15)
    admin.client.delete_records([place])[place].result(20)
    error = only_error(stopped(flow))
    assert (error.state, error.code, error.offset) == ("gap", "out_of_range", 10)
    assert "begins at 15" in error.reason
    assert "10 to 14" in error.reason
    assert len(target.read(remote, 0)) == 10
    assert len(target.read(remote, 1)) == 20


def test_a_topic_made_again_with_more_records_is_not_read_on(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(source, topic)
    time.sleep(0.5)
    source.make(topic, 2)
    source.write(topic, 0, [Record(0, NOW, b"new", BIG)] * 9)
    result = RawCopier().run(flow.work(seconds=2), Driver())  # type: ignore[arg-type]
    assert {(error.state, error.code) for error in result.errors} == {("gap", "generation")}
    assert len(result.errors) == 2
    assert {row.key for row in target.read(remote, 0)} == {b"old"}


def test_a_topic_that_is_gone_is_said_to_be_gone(source: Side, target: Side) -> None:
    flow, topic, _ = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)])
    flow.copy()
    delete(source, topic)
    result = RawCopier().run(flow.work(seconds=13), Driver())  # type: ignore[arg-type]
    assert {(error.state, error.code) for error in result.errors} == {("faulted", "source_missing")}


def test_a_remote_topic_made_again_while_copying_is_not_written(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(target, remote)
    time.sleep(0.5)
    target.make(remote, 2)
    source.write(topic, 0, [Record(0, NOW, b"late", BIG)] * 5)
    result = RawCopier().run(flow.work(seconds=5), Driver())  # type: ignore[arg-type]
    errors = {(error.partition, error.state, error.code) for error in result.errors}
    assert (0, "gap", "generation") in errors
    assert target.read(remote, 0) == []


def test_a_position_of_an_earlier_generation_is_not_used(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(source, topic)
    time.sleep(0.5)
    source.make(topic, 2)
    source.write(topic, 0, [Record(0, NOW, b"new", BIG)] * 9)
    # The driver has planned anew, but the positions topic still speaks of the old topic.
    view = source.client.describe([topic], soon())[topic]
    flow.rows = [dataclasses.replace(row, topic_id=id_text(view.topic_id)) for row in flow.rows]
    result = RawCopier().run(flow.work(seconds=2), Driver())  # type: ignore[arg-type]
    codes = {(error.partition, error.code) for error in result.errors}
    assert (0, "generation") in codes
    assert {row.key for row in target.read(remote, 0)} == {b"old"}


def test_a_start_beyond_the_end_is_a_gap_not_a_jump(source: Side, target: Side) -> None:
    topic = unique("beyond")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3, codec=codecs.LZ4)
    flow = Flow(source, target)
    flow.add(topic, start=7)
    result = RawCopier().run(flow.work(seconds=2), Driver())  # type: ignore[arg-type]
    error = result.errors[0]
    assert (error.state, error.code, error.offset) == ("gap", "out_of_range", 7)
    assert "ends at 3" in error.reason
