"""Missing offsets and recreated topics: a gap with numbers, never a skip."""

from __future__ import annotations

import dataclasses
import time

import pytest
from confluent_kafka import TopicPartition

from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.source import errors as source_errors
from spark_runner.engine.target import errors as target_errors
from spark_runner.ipc.messages import SliceResult
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW, only_error, stopped, two_partitions
from tests.wire.world import Driver, Flow, Side, soon, unique


def delete(side: Side, topic: str) -> None:
    admin = Admin(side.spec)  # the futures die with it
    admin.client.delete_topics([topic], operation_timeout=20)[topic].result(30)


def test_deleted_records_are_a_gap_with_its_numbers(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    for partition in (0, 1):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    flow.copy()
    for partition in (0, 1):
        source.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    admin = Admin(source.spec)
    tp = TopicPartition(topic, 0, 15)
    admin.client.delete_records([tp])[tp].result(20)
    error = only_error(stopped(flow))
    assert (error.state, error.code, error.offset) == ("gap", "out_of_range", 10)
    assert "begins at 15" in error.reason
    assert "10 to 14" in error.reason
    assert len(target.read(remote, 0)) == 10
    assert len(target.read(remote, 1)) == 20


def until_stopped(flow: Flow, *partitions: int) -> SliceResult:
    """Run until each of these has stopped."""

    def done(driver: Driver) -> bool:
        return set(partitions) <= {e.partition for row in driver.figures for e in row.errors}

    return RawCopier().run(flow.work(seconds=20), Driver(until=done))  # type: ignore[arg-type]


def test_a_topic_made_again_with_more_records_is_not_read_on(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(source, topic)
    time.sleep(0.5)
    source.make(topic, 2)
    source.write(topic, 0, [Record(0, NOW, b"new", BIG)] * 9)
    result = until_stopped(flow, 0, 1)
    assert {(error.state, error.code) for error in result.errors} == {("gap", "generation")}
    assert len(result.errors) == 2
    assert {row.key for row in target.read(remote, 0)} == {b"old"}


def test_a_topic_that_is_gone_is_said_to_be_gone(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_errors, "MISSING_AFTER_S", 2.0)
    flow, topic, _ = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)])
    flow.copy()
    delete(source, topic)
    result = until_stopped(flow, 0, 1)
    assert {(error.state, error.code) for error in result.errors} == {("faulted", "source_missing")}


def test_a_remote_topic_made_again_while_copying_is_not_written(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(target, remote)
    time.sleep(0.5)
    target.make(remote, 2)
    source.write(topic, 0, [Record(0, NOW, b"late", BIG)] * 5)
    result = until_stopped(flow, 0)
    errors = {(error.partition, error.state, error.code) for error in result.errors}
    assert (0, "gap", "generation") in errors
    assert target.read(remote, 0) == []


# By id, by name, and by name with AddPartitionsToTxn.
@pytest.mark.parametrize("newest", [13, 12, 11])
def test_a_remote_topic_that_is_deleted_stops_alone(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    monkeypatch.setattr(target_errors, "MISSING_AFTER_S", 1.5)
    gone, stays = unique("gone"), unique("stays")
    flow = Flow(source, target, commit_interval_ms="50")
    for topic in (gone, stays):
        source.make(topic)
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 5)
    remote = flow.add(gone)
    flow.add(stays)
    flow.copy(RawCopier(newest_produce=newest))
    delete(target, remote)

    def write_on(driver: Driver) -> bool:
        for topic in (gone, stays):
            source.write(topic, 0, [Record(0, NOW, b"k", BIG)])
        has_stopped = any(figures.errors for figures in driver.figures)
        return has_stopped and driver.position(stays, 0) > 5

    driver = Driver(until=write_on)
    result = RawCopier(newest_produce=newest).run(flow.work(), driver)  # type: ignore[arg-type]
    assert result.ended_because == "stop", result
    assert [(error.topic, error.offset) for error in result.errors] == [(gone, 5)]
    assert result.errors[0].code in ("remote_missing", "generation")


def test_a_position_of_an_earlier_generation_is_not_used(source: Side, target: Side) -> None:
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 5)
    flow.copy()
    delete(source, topic)
    time.sleep(0.5)
    source.make(topic, 2)
    source.write(topic, 0, [Record(0, NOW, b"new", BIG)] * 9)
    # The driver has planned again, but the positions topic still describes the old topic.
    view = source.client.describe([topic], soon())[topic]
    flow.rows = [dataclasses.replace(row, topic_id=id_text(view.topic_id)) for row in flow.rows]
    result = until_stopped(flow, 0)
    codes = {(error.partition, error.code) for error in result.errors}
    assert (0, "generation") in codes
    assert {row.key for row in target.read(remote, 0)} == {b"old"}


def test_a_start_beyond_the_end_is_a_gap_not_a_jump(source: Side, target: Side) -> None:
    topic = unique("beyond")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3, codec=compression.LZ4)
    flow = Flow(source, target)
    flow.add(topic, start=7)
    result = until_stopped(flow, 0)
    error = result.errors[0]
    assert (error.state, error.code, error.offset) == ("gap", "out_of_range", 7)
    assert "ends at 3" in error.reason
