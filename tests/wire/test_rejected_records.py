"""One bad record stops only its partition, with a reason; nothing is skipped."""

from __future__ import annotations

import dataclasses
import random
import types
from typing import Any

import pytest
from confluent_kafka import KafkaError

import spark_runner.engine.source.reader
from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import ClientCode, Code
from mirrors.kafka.error_table import BATCH_REJECTED
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.record_lane import errors as record_errors
from spark_runner.engine.rejections import REJECTIONS, rejection_of
from spark_runner.engine.target import errors as target_errors
from spark_runner.ipc.messages import PartitionError, PartitionWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, LANES, NOW, only_error, stopped, two_partitions
from tests.wire.world import Driver, Flow, Side, bare

LARGE = random.Random(1).randbytes(60_000)  # in whatever codec
TWO_HOURS = 7_200_000
each_lane = pytest.mark.parametrize("lane", LANES)


def refused_in_the_middle(source: Side, topic: str, bad: Record) -> None:
    """Three good batches on both sides of a bad one in partition 0; partition 1 is all good."""
    good = Record(0, NOW, b"key", BIG)
    for _ in range(3):
        source.write(topic, 0, [good] * 2)
    source.write(topic, 0, [good, bad, good])
    for _ in range(3):
        source.write(topic, 0, [good] * 2)
        source.write(topic, 1, [good] * 4)


def check_stop(
    flow: Flow,
    topic: str,
    remote: str,
    error: PartitionError,
    offset: int,
    *,
    kind: str = "refused",
    count: int = 1,
) -> None:
    assert (error.topic, error.partition) == (topic, 0)
    assert error.offset == offset
    assert str(offset) in error.reason
    assert bare(flow.target.read(remote, 1)) == bare(flow.source.read(topic, 1))
    copied, wanted = bare(flow.target.read(remote, 0)), bare(flow.source.read(topic, 0))
    assert copied == wanted[: len(copied)]
    assert len(copied) == offset, "all before it has crossed, also what was in its batch"
    assert error.gap is not None
    assert (error.gap.kind, error.gap.position) == (kind, offset)
    assert error.gap.behind == offset + count


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


def test_nothing_that_lies_behind_it_crosses_however_much_is_on_its_way(
    source: Side, target: Side
) -> None:
    """What was asked of the source when it was found comes in while batches before it still fly."""
    flow, topic, remote = two_partitions(source, target, max_message_bytes="40000")
    flow.properties["consumer.max.partition.fetch.bytes"] = "70000"
    good = Record(0, NOW, b"key", BIG)
    for number in range(100):
        bad = Record(0, NOW, b"k", LARGE)
        source.write(topic, 0, [bad, good] if number == 30 else [good] * 2)
    driver = Driver(until=lambda driver: any(figures.errors for figures in driver.figures))
    result = RawCopier().run(flow.work(seconds=20), driver)  # type: ignore[arg-type]
    assert only_error(result).offset == 60
    assert driver.position(topic, 0) <= 60
    copied = bare(target.read(remote, 0))
    assert copied == bare(source.read(topic, 0))[: min(len(copied), 60)]
    target.alter(remote, "max.message.bytes", "400000")
    flow.rows = [dataclasses.replace(row, remote_configs={}) for row in flow.rows]
    assert flow.copy()[0].errors == ()
    assert bare(target.read(remote, 0)) == bare(source.read(topic, 0))


@each_lane
def test_a_limit_that_was_lowered_behind_the_plan_is_met_at_the_one_record(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote = two_partitions(source, target)
    flow.rows = [dataclasses.replace(row, remote_configs={}) for row in flow.rows]
    target.alter(remote, "max.message.bytes", "40000")
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
    original = spark_runner.engine.source.reader.scan

    def flip_a_bit(partition: Any, buffer: Any, *rest: Any) -> int:
        found = original(partition, buffer, *rest)
        for batch in partition.queue:
            if batch.first == 6 and partition.partition == 0:
                buffer.view[batch.at + 100] ^= 0x10
        return found

    monkeypatch.setattr(spark_runner.engine.source.reader, "scan", flip_a_bit)
    error = only_error(stopped(flow))
    assert error.code == "corrupt_source"
    # The whole batch, which ends where the next one begins.
    check_stop(flow, topic, remote, error, 6, kind="damaged", count=3)
    monkeypatch.undo()
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote, 0)) == bare(source.read(topic, 0))


def test_of_a_damaged_batch_at_the_end_nobody_can_say_where_it_ends(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, _ = two_partitions(source, target)
    for _ in range(2):
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 2)
    original = spark_runner.engine.source.reader.scan

    def flip_a_bit(partition: Any, buffer: Any, *rest: Any) -> int:
        found = original(partition, buffer, *rest)
        for batch in partition.queue:
            if batch.first == 2:
                buffer.view[batch.at + 100] ^= 0x10
        return found

    monkeypatch.setattr(spark_runner.engine.source.reader, "scan", flip_a_bit)
    error = only_error(stopped(flow))
    assert (error.code, error.offset, error.gap) == ("corrupt_source", 2, None)


WORK: Any = types.SimpleNamespace(target=types.SimpleNamespace(alias="backup"))
PART = PartitionWork(
    topic="orders",
    topic_id="",
    partition=3,
    remote_topic="a.orders",
    remote_topic_id="",
    start=0,
)


def said_by_both_lanes(number: int, message: str) -> list[str]:
    partition = Partition("orders", 3, "a.orders")
    error = KafkaError(number, message) if message else KafkaError(number)
    return [
        target_errors.rejected(partition, 7, number, message, "backup").reason,
        record_errors.of_record(PART, 7, error, WORK),
    ]


@pytest.mark.parametrize("message", ["", "Timestamp 1 of message 0 is out of range."])
def test_both_lanes_give_the_same_reason_for_an_error_number(message: str) -> None:
    for number in REJECTIONS:
        raw, record = said_by_both_lanes(number, message)
        assert raw == record
    raw, _ = said_by_both_lanes(Code.INVALID_TIMESTAMP, message)
    quoted = ", Timestamp 1 of message 0 is out of range" if message else ""
    assert raw == (
        "The record at orders-3 offset 7 was not replicated: its timestamp is outside the limits "
        "of the remote topic; raise message.timestamp.after.max.ms (or before.max.ms) of a.orders "
        f"on backup (the broker: INVALID_TIMESTAMP{quoted}). The partition stops there; the others "
        "continue."
    )


def test_what_the_broker_rejects_in_a_batch_has_a_reason_and_a_code_of_its_own() -> None:
    assert REJECTIONS.keys() >= BATCH_REJECTED
    codes = {number: row.code for number, row in REJECTIONS.items()}
    assert codes == {
        -1: "invalid_record",
        2: "invalid_record",
        3: "remote_missing",
        10: "too_large",
        18: "too_large",
        29: "not_authorised",
        32: "timestamp",
        44: "policy",
        87: "invalid_record",
        ClientCode.UNKNOWN_TOPIC: "remote_missing",
        ClientCode.UNKNOWN_PARTITION: "remote_missing",
    }
    assert rejection_of(43).explain("r", "backup") == (
        "backup answered UNSUPPORTED_FOR_MESSAGE_FORMAT"
    )


def test_the_record_lane_looks_for_the_record_only_where_a_record_is_the_cause() -> None:
    tp = ("orders", 3)
    for number in REJECTIONS.keys() - {Code.UNKNOWN_SERVER_ERROR}:
        failures = [(tp, 9, KafkaError(number)), (tp, 7, KafkaError(number))]
        found = record_errors.suspects(failures, WORK)[tp]
        assert (found.first, found.last) == (7, 9)
        assert found.is_one == (number not in BATCH_REJECTED)
    for number in (Code.UNKNOWN_SERVER_ERROR, Code.NOT_ENOUGH_REPLICAS, ClientCode.TRANSPORT):
        with pytest.raises(KafkaUnavailable):
            record_errors.suspects([(tp, 7, KafkaError(number))], WORK)
    assert not record_errors.suspects([(tp, 7, KafkaError(ClientCode.PURGE_QUEUE))], WORK)
