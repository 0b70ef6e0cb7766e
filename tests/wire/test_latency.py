"""The replication latency that a task reports: from the records' timestamps to their commit."""

from __future__ import annotations

import time

import pytest

from mirrors.domain.flows.latency import add_up
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Flow, Side, unique

LANES = {"raw": RawCopier, "record": RecordLane}
COUNT = 4


@pytest.mark.parametrize("lane", LANES)
def test_the_latency_is_that_of_the_copied_records(source: Side, target: Side, lane: str) -> None:
    topic = unique("latency")
    source.make(topic)
    now = int(time.time() * 1000)
    old, young = now - 60_000, now - 20_000
    for timestamp in (old, young):
        source.write(topic, 0, [Record(0, timestamp, b"k", b"v") for _ in range(COUNT)])
    flow = Flow(source, target, commit_interval_ms="50")
    flow.add(topic)
    result, driver = flow.copy(LANES[lane]())  # type: ignore[arg-type]
    ended = int(time.time() * 1000)
    reports = [*driver.figures, result]
    found = add_up(row.latency for report in reports for row in report.partitions)
    assert found is not None
    assert found.records == 2 * COUNT
    assert now - young <= found.min_ms <= ended - young
    assert now - old <= found.max_ms <= ended - old
    assert now - (old + young) / 2 <= found.mean_ms <= ended - (old + young) / 2


def test_records_without_timestamps_have_no_latency(source: Side, target: Side) -> None:
    topic = unique("timeless")
    source.make(topic)
    source.write(topic, 0, [Record(0, -1, b"k", b"v")])
    flow = Flow(source, target, commit_interval_ms="50")
    flow.add(topic)
    result, driver = flow.copy(RawCopier())
    assert result.records == 1
    reports = [*driver.figures, result]
    assert add_up(row.latency for report in reports for row in report.partitions) is None
