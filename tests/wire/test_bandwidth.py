"""A flow's bandwidth limit on real brokers: both lanes keep it; a new limit applies at once."""

from __future__ import annotations

import os
import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Driver, Flow, Side, bare, unique

LIMIT = 400_000
LANES = {"raw": RawCopier, "record": RecordLane}


def filled(source: Side, size: int, stem: str = "limit", *, records: int = 1) -> str:
    """Three partitions of `size` bytes together, in batches of 20 KB, of `records` each."""
    topic = unique(stem)
    source.make(topic, 3)
    for at in range(size // 20_000):
        values = [os.urandom(20_000 // records) for _ in range(records)]
        batch = [Record(0, 1_700_000_000_000, b"%d" % at, value) for value in values]
        source.write(topic, at % 3, batch)
    return topic


@pytest.mark.parametrize("lane", LANES)
def test_a_flow_reads_no_faster_than_its_limit(source: Side, target: Side, lane: str) -> None:
    # The record lane takes up to 51 records at once: small ones, or those were most of them.
    topic = filled(source, 1_200_000, records=10)
    flow = Flow(source, target, bandwidth_limit_bytes=str(LIMIT), commit_interval_ms="100")
    remote = flow.add(topic)
    ends = flow.ends()
    driver = Driver(until=lambda d: all(d.position(*tp) >= end for tp, end in ends.items()))
    began = time.monotonic()
    result = LANES[lane]().run(flow.work(), driver)  # type: ignore[arg-type]
    took = time.monotonic() - began
    assert result.ended_because == "stop", result
    # 3 s at the limit, but for what may be read at once.
    assert 1.5 < took < 10.0
    assert any(figures.limited for figures in driver.figures)
    for partition in range(3):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))


def test_a_limit_that_is_lifted_holds_no_more_at_once(source: Side, target: Side) -> None:
    topic = filled(source, 1_200_000)
    flow = Flow(source, target, bandwidth_limit_bytes="20000", commit_interval_ms="100")
    flow.add(topic)
    ends = flow.ends()
    began = time.monotonic()

    def is_done(driver: Driver) -> bool:
        if time.monotonic() - began > 1.0:
            driver.shares = [None]
        return all(driver.position(*tp) >= end for tp, end in ends.items())

    result = RawCopier().run(flow.work(), Driver(until=is_done))  # type: ignore[arg-type]
    assert result.ended_because == "stop", result
    assert time.monotonic() - began < 5.0


def test_the_high_class_empties_first_under_a_limit_while_the_low_one_advances(
    source: Side, target: Side
) -> None:
    low, high = filled(source, 800_000, "low"), filled(source, 800_000, "high")
    flow = Flow(
        source,
        target,
        bandwidth_limit_bytes=str(LIMIT),
        commit_interval_ms="100",
        topics_priority_high=r"high\..*",
        topics_priority_low=r"low\..*",
    )
    remotes = {topic: flow.add(topic) for topic in (low, high)}
    lows: list[int] = []

    def copied(driver: Driver, topic: str) -> int:
        return sum(max(0, driver.position(topic, partition)) for partition in range(3))

    def is_done(driver: Driver) -> bool:
        lows.append(copied(driver, low))
        return copied(driver, high) == 40

    result = RawCopier().run(flow.work(), Driver(until=is_done))  # type: ignore[arg-type]
    assert result.ended_because == "stop", result
    assert 0 < lows[-1] <= 16, "an eighth of 40, and what single replies bring more"
    assert len(set(lows)) > 2, "it went on meanwhile"
    for partition in range(3):
        assert bare(target.read(remotes[high], partition)) == bare(source.read(high, partition))
        some = bare(target.read(remotes[low], partition))
        assert some == bare(source.read(low, partition))[: len(some)]
