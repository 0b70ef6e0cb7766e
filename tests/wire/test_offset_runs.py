"""The offset runs equal a brute-force comparison, from every start."""

from __future__ import annotations

import dataclasses
import random
import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import WithheldBatches
from tests.wire.world import Driver, Flow, Side, bare, unique

# Nearly as many as the history has offsets.
STARTS = 30
CLEANED_WITHIN_S = 90.0


def history(side: Side, topic: str, partitions: int, seed: int) -> None:
    """The same in every partition: plain, committed and aborted batches, keys that come again."""
    chance = random.Random(seed)
    writers = [side.transaction(unique("map")) for _ in range(2)]
    for at in range(10):
        kind = chance.randrange(3)
        rows = [
            Record(0, 1_000_000 + at * 10 + row, b"k%d" % chance.randrange(9), b"%d" % at)
            for row in range(chance.randrange(1, 6))
        ]
        codec = chance.randrange(5)
        for partition in range(partitions):
            if kind == 2:
                side.write(topic, partition, rows, codec=codec)
            else:
                writers[kind].write(topic, partition, rows, codec=codec)
        if chance.random() < 0.5:
            writers[0].end(commit=chance.random() < 0.5)
            writers[1].end(commit=chance.random() < 0.5)
    for writer in writers:
        writer.end(commit=True)
    time.sleep(0.3)


def brute_force(flow: Flow, topic: str, partition: int, start: int) -> dict[int, int]:
    """Which upstream offset each downstream offset holds, found by comparing all records."""
    upstream = flow.source.read(topic, partition, start=start)
    downstream = flow.target.read(f"{flow.alias}.{topic}", partition)
    assert bare(downstream) == bare(upstream)
    return {above.offset: below.offset for above, below in zip(upstream, downstream, strict=True)}


def mapped(
    flow: Flow, topic: str, partition: int, blocks: dict[bytes, bytes] | None = None
) -> dict[int, int]:
    return {
        run.upstream + at: run.downstream + at
        for run in flow.runs(topic, partition, blocks=blocks)
        for at in range(run.length)
    }


def copy_from_every_offset(source: Side, target: Side, topic: str) -> Flow:
    """Partition n begins at offset n."""
    flow = Flow(source, target, commit_interval_ms="20")
    flow.add(topic)
    ends = source.ends(topic)
    flow.rows = [
        dataclasses.replace(row, start=min(max(row.partition, first), ends[row.partition]))
        for row in flow.rows
        for first in [source.first(topic, row.partition)]
    ]
    result, _ = flow.copy()
    assert result.errors == ()
    return flow


def check_every_partition(flow: Flow, topic: str) -> None:
    blocks = flow.blocks()
    for row in flow.rows:
        expected = brute_force(flow, topic, row.partition, row.start)
        assert mapped(flow, topic, row.partition, blocks) == expected


def has_missing_offsets(side: Side, topic: str, partition: int) -> bool:
    headers = side.headers(topic, partition)
    return any(row.records != row.last_offset_delta + 1 for row in headers)


def test_from_every_offset_of_a_topic_with_aborts(source: Side, target: Side) -> None:
    topic = unique("every")
    source.make(topic, STARTS)
    history(source, topic, STARTS, seed=3)
    assert source.ends(topic)[0] > STARTS
    check_every_partition(copy_from_every_offset(source, target, topic), topic)


@pytest.mark.timeout(200)
def test_from_every_offset_of_a_compacted_topic_with_aborts(source: Side, target: Side) -> None:
    topic = unique("compacted")
    source.make(
        topic,
        STARTS,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="200",
    )
    history(source, topic, STARTS, seed=4)
    # A segment is cleaned once it is not the newest: a write after segment.ms begins another.
    for _ in range(2):
        time.sleep(0.3)
        for partition in range(STARTS):
            source.write(topic, partition, [Record(0, 1, b"roll", b"")], codec=compression.NONE)
    until = time.monotonic() + CLEANED_WITHIN_S
    left = set(range(STARTS))
    while left := {
        partition for partition in left if not has_missing_offsets(source, topic, partition)
    }:
        assert time.monotonic() < until, f"the cleaner did not run: {left}"
        time.sleep(0.5)
    for _ in range(3):
        before = {partition: source.read(topic, partition) for partition in range(STARTS)}
        flow = copy_from_every_offset(source, target, topic)
        # The cleaner may come by again at any time: then compare another copy.
        if before == {partition: source.read(topic, partition) for partition in range(STARTS)}:
            break
    check_every_partition(flow, topic)


def test_a_restart_continues_the_map_where_it_was(source: Side, target: Side) -> None:
    topic = unique("restart")
    source.make(topic)
    flow = Flow(source, target)
    flow.add(topic)
    for at in range(4):
        for _ in range(3):
            source.write(topic, 0, [Record(0, at, b"k", b"v" * 15_000)] * 3, codec=compression.NONE)
        flow.copy()
    expected = brute_force(flow, topic, 0, 0)
    assert mapped(flow, topic, 0) == expected
    assert len(expected) == 36
    assert len(flow.runs(topic)) == 4, "one marker a transaction, one run between two markers"


def test_at_least_once_makes_one_run_of_a_clean_partition(source: Side, target: Side) -> None:
    topic = unique("clean")
    source.make(topic)
    for at in range(30):
        source.write(topic, 0, [Record(0, at, b"k", b"v" * 15_000)] * 2)
    flow = Flow(source, target, delivery="at_least_once", commit_interval_ms="10")
    flow.add(topic)
    flow.copy()
    assert [(run.upstream, run.downstream, run.length) for run in flow.runs(topic)] == [(0, 0, 60)]


def test_at_least_once_no_position_is_written_before_its_runs(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("runs.first")
    source.make(topic)
    flow = Flow(source, target, delivery="at_least_once", commit_interval_ms="10")
    remote = flow.add(topic)
    source.write(topic, 0, [Record(0, at, b"k", b"first") for at in range(5)])
    flow.copy()
    source.write(topic, 0, [Record(0, at, b"k", b"more") for at in range(7)])
    with monkeypatch.context() as patch:
        kept = WithheldBatches(patch, lambda partition: partition.topic == flow.runs_topic)
        driver = Driver(until=lambda _: kept.times > 3)
        result = RawCopier().run(flow.work(), driver)  # type: ignore[arg-type]
        assert (result.ended_because, result.code) == ("failed", "timeout"), result
    flow.copy()
    downstream = {record.offset: record for record in target.read(remote)}
    found = {up: downstream[down] for up, down in mapped(flow, topic, 0).items()}
    upstream = source.read(topic)
    assert list(found) == [record.offset for record in upstream]
    assert bare(found.values()) == bare(upstream)


class StoppedSuccessor(Driver):
    """Tells a successor to stop before it was given its turn."""

    def wait_for_turn(self, deadline_s: float) -> bool:
        return False


@pytest.mark.parametrize("lane", [RawCopier, RecordLane])
def test_a_lane_that_has_not_read_the_positions_says_nothing_of_them(
    source: Side, target: Side, lane: type[RawCopier | RecordLane]
) -> None:
    topic = unique("silent")
    source.make(topic)
    source.write(topic, 0, [Record(0, 1, b"k", b"v")] * 7)
    flow = Flow(source, target)
    flow.add(topic)
    flow.copy()
    driver = StoppedSuccessor(until=lambda _: True)
    result = lane().run(flow.work(), driver)  # type: ignore[arg-type]
    assert (result.ended_because, result.partitions) == ("stop", ())
    assert not any(figures.partitions for figures in driver.figures)
