"""A remote partition that lost its newest records is reported with exact offsets."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.kafka.admin.topics import Admin
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.recovery import target_truncation
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import LANES, NOW, only_error, stopped
from tests.wire.world import Driver, Flow, Side, unique

BOTH = pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
each_lane = pytest.mark.parametrize("lane", LANES)


def records(count: int, value: bytes = b"v") -> list[Record]:
    return [Record(0, NOW, b"k", value)] * count


def copied(
    source: Side, target: Side, lane: str = "raw", **properties: str
) -> tuple[Flow, str, str]:
    """Two partitions with ten records each on both sides."""
    topic = unique("cut")
    source.make(topic, 2)
    flow = Flow(source, target, commit_interval_ms="50", **properties)
    remote = flow.add(topic)
    for partition in (0, 1):
        source.write(topic, partition, records(10))
    flow.copy(LANES[lane]())
    return flow, topic, remote


def position(flow: Flow, topic: str, partition: int = 0) -> Position:
    found = [
        row
        for record in flow.target.read(flow.positions_topic)
        if isinstance(row := read_position(record.key, record.value), Position)
        and (row.topic, row.partition) == (topic, partition)
    ]
    return found[-1]


def lose(flow: Flow, topic: str, count: int) -> GapFacts:
    """As if partition 0 of the remote topic had had `count` more offsets. Returns the expected
    facts."""
    known = position(flow, topic)
    had = known.next_downstream
    assert had is not None
    more = dataclasses.replace(known, next_downstream=had + count)
    flow.target.write(flow.positions_topic, 0, [Record(0, NOW, more.key, more.value)])
    return GapFacts(
        kind="remote_truncated", position=10, first=None, end=None, remote_end=had,
        remote_next=had + count,
    )  # fmt: skip


def write_both(source: Side, topic: str) -> None:
    for partition in (0, 1):
        source.write(topic, partition, records(5, b"late"))


def sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the cut came behind the look."""
    monkeypatch.setattr(
        target_truncation,
        "ends",
        lambda _, partitions: {it: it.committed_downstream for it in partitions},
    )


@BOTH
@each_lane
def test_a_partition_that_ends_too_soon_is_not_written(
    source: Side, target: Side, delivery: str, lane: str
) -> None:
    flow, topic, remote = copied(source, target, lane, delivery=delivery)
    facts = lose(flow, topic, 40)
    write_both(source, topic)
    error = only_error(stopped(flow, lane))
    assert (error.partition, error.state, error.code) == (0, "gap", "remote_truncated")
    assert (error.offset, error.gap) == (10, facts)
    assert f"ended at {facts.remote_end}" in error.reason
    assert "lost 40 offsets" in error.reason
    assert (len(target.read(remote, 0)), len(target.read(remote, 1))) == (10, 15)
    # What is written there by others hides it; the mark beside the position does not.
    kept = position(flow, topic)
    assert (kept.position, kept.remote_end) == (10, facts.remote_end)
    target.write(remote, 0, records(60, b"theirs"))
    again = only_error(stopped(flow, lane))
    assert (again.partition, again.code, again.gap) == (0, "remote_truncated", facts)


@BOTH
@each_lane
def test_a_batch_below_what_was_committed_does_not_count(
    source: Side, target: Side, delivery: str, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = copied(source, target, lane, delivery=delivery)
    sees_nothing(monkeypatch)
    runs = flow.runs(topic) if lane == "raw" else []
    facts = lose(flow, topic, 40)
    write_both(source, topic)
    error = only_error(stopped(flow, lane))
    assert (error.partition, error.code, error.gap) == (0, "remote_truncated", facts)
    assert lane == "record" or flow.runs(topic) == runs
    assert position(flow, topic).position == 10
    assert len(target.read(remote, 1)) >= 15
    if delivery == "exactly_once":
        assert (len(target.read(remote, 0)), len(target.read(remote, 1))) == (10, 15)


def test_what_was_not_committed_and_is_cut_is_copied_again(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = copied(source, target)
    landed, cut = TargetWriter._acknowledged, []

    def cut_once(self: TargetWriter, partition: Any, batch: Any, base: int) -> None:
        if not partition.is_internal and not cut:
            # The batch before it, of the same transaction, is there no more.
            cut.append(base)
            partition.acknowledge_records(partition.records, base + 2)
        landed(self, partition, batch, base)

    monkeypatch.setattr(TargetWriter, "_acknowledged", cut_once)
    write_both(source, topic)
    result, _ = flow.copy()
    assert (result.errors, len(cut)) == ((), 1)
    for partition in (0, 1):
        assert len(target.read(remote, partition)) == 15
        rising = [run.downstream for run in flow.runs(topic, partition)]
        assert rising == sorted(rising)


@BOTH
@each_lane
def test_nothing_else_is_taken_for_it(source: Side, target: Side, delivery: str, lane: str) -> None:
    """Deleted beginnings, markers, aborted transactions, and a target that nobody wrote to yet."""
    flow, topic, remote = copied(source, target, lane, delivery=delivery)
    foreign = target.transaction(unique("foreign"))
    for turn in range(3):
        tp = TopicPartition(remote, 0, target.ends(remote)[0])
        admin = Admin(target.spec)
        admin.client.delete_records([tp])[tp].result(20)
        foreign.write(remote, 1, records(2))
        foreign.end(commit=turn == 1)
        assert flow.copy(LANES[lane]())[0].errors == ()
        write_both(source, topic)
        assert flow.copy(LANES[lane]())[0].errors == ()
    before = target.transaction(flow.work().transactional_id)
    before.write(remote, 0, records(7))
    write_both(source, topic)
    assert flow.copy(LANES[lane]())[0].errors == ()


def test_a_remote_topic_made_anew_is_no_cut(source: Side, target: Side) -> None:
    """By name, as old brokers are spoken to, its first batch lands below as well."""
    flow, topic, remote = copied(source, target)
    anew: list[str] = []

    def until(driver: Driver) -> bool:
        if not anew and driver.position(topic, 0) == driver.position(topic, 1) == 15:
            admin = Admin(target.spec)
            admin.client.delete_topics([remote], operation_timeout=20)[remote].result(30)
            anew.append(target.make(remote, 2).name)
            write_both(source, topic)
        return any(figures.errors for figures in driver.figures)

    write_both(source, topic)
    driver = Driver(until=until)
    result = RawCopier(newest_produce=12).run(flow.work(), driver)  # type: ignore[arg-type]
    assert {error.code for error in result.errors} == {"generation"}
    assert target.read(remote, 0) == []


@each_lane
def test_one_lane_keeps_to_what_the_other_wrote_down(source: Side, target: Side, lane: str) -> None:
    """Also a copy that found nothing to do: its row of the positions topic is the same."""
    other = "record" if lane == "raw" else "raw"
    flow, topic, remote = copied(source, target, other)
    assert flow.copy(LANES[lane]())[0].errors == ()
    facts = lose(flow, topic, 40)
    marked = dataclasses.replace(position(flow, topic), remote_end=facts.remote_end)
    target.write(flow.positions_topic, 0, [Record(0, NOW, marked.key, marked.value)])
    write_both(source, topic)
    error = only_error(stopped(flow, lane))
    assert (error.partition, error.gap) == (0, facts)
    assert (len(target.read(remote, 0)), len(target.read(remote, 1))) == (10, 15)
