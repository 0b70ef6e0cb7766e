"""A bounded run copies exactly the records before its end."""

from __future__ import annotations

import dataclasses
import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Driver, Flow, Side, bare, unique

LANES = {"raw": RawCopier, "record": RecordLane}
BATCH = 4
BATCHES = 3


def records(batch: int) -> list[Record]:
    return [Record(0, 1_700_000_000_000 + batch, b"%d" % batch, b"%d" % at) for at in range(BATCH)]


@pytest.mark.parametrize("lane", LANES)
def test_every_end_is_kept_to_the_record(source: Side, target: Side, lane: str) -> None:
    """Partition n ends at offset n: in front of, inside and behind each batch."""
    topic = unique("bounded")
    count = BATCH * BATCHES + 1
    source.make(topic, count)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    flow.rows = [dataclasses.replace(row, stop=row.partition) for row in flow.rows]
    for batch in range(BATCHES):
        for partition in range(count):
            source.write(topic, partition, records(batch), codec=compression.LZ4)
    ends = {(topic, number): number for number in range(1, count)}
    result, driver = flow.copy(LANES[lane](), ends=ends)  # type: ignore[arg-type]
    assert (result.ended_because, result.errors) == ("stop", ()), result
    for row in flow.rows:
        wanted = bare(source.read(topic, row.partition))[: row.partition]
        assert bare(target.read(remote, row.partition)) == wanted
        assert driver.position(topic, row.partition) in (row.partition, -1, 0)


@pytest.mark.parametrize("lane", LANES)
def test_a_run_between_two_offsets_copies_just_what_lies_between(
    source: Side, target: Side, lane: str
) -> None:
    """Each pair of bounds in the first two batches: both inside one, in two, and on their edges."""
    bounds = [(start, stop) for stop in range(2 * BATCH + 1) for start in range(stop)]
    topic = unique("between")
    source.make(topic, len(bounds))
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    flow.rows = [
        dataclasses.replace(row, start=bounds[row.partition][0], stop=bounds[row.partition][1])
        for row in flow.rows
    ]
    for batch in range(BATCHES):
        for partition in range(len(bounds)):
            source.write(topic, partition, records(batch), codec=compression.LZ4)
    ends = {(topic, partition): stop for partition, (_, stop) in enumerate(bounds)}
    result, driver = flow.copy(LANES[lane](), ends=ends)  # type: ignore[arg-type]
    assert (result.ended_because, result.errors) == ("stop", ()), result
    for partition, (start, stop) in enumerate(bounds):
        wanted = bare(source.read(topic, partition))[start:stop]
        assert bare(target.read(remote, partition)) == wanted, (start, stop)
        assert driver.position(topic, partition) == stop


def test_an_end_behind_markers_and_aborted_records_is_reached(source: Side, target: Side) -> None:
    topic = unique("bounded")
    source.make(topic)
    writer = source.transaction(unique("app"))
    writer.write(topic, 0, records(0))
    writer.end(commit=True)
    writer.write(topic, 0, records(1))
    writer.end(commit=False)
    time.sleep(0.3)
    end = source.ends(topic, committed=True)[0]
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    flow.rows = [dataclasses.replace(row, stop=end) for row in flow.rows]
    source.write(topic, 0, records(2))
    flow.copy(ends={(topic, 0): end})
    assert bare(target.read(remote)) == bare(source.read(topic))[:BATCH]
    # An epoch more has nothing to do.
    idle = Driver(until=lambda _: time.monotonic() > until)
    until = time.monotonic() + 1
    assert RawCopier().run(flow.work(), idle).records == 0  # type: ignore[arg-type]
