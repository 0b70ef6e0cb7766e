"""Retention that overtakes a paused flow: a gap with its numbers, as after DeleteRecords."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from controlplane.demo.guard import Guard
from controlplane.demo.kafka import KafkaBroker
from spark_runner.wire.records import Record
from tests.wire.stops import BIG, NOW, only_error, stopped, two_partitions
from tests.wire.world import Side

# A broker looks for what has become too old every five minutes, unless it is told otherwise.
EAGER = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}


@pytest.fixture
def eager(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[Side]:
    broker = KafkaBroker(
        tmp_path_factory.mktemp("eager"),
        name="eager",
        heap="256m",
        properties=EAGER,
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        side = Side("one", broker.start().bootstrap)
        yield side
        side.close()
    finally:
        broker.kill()


@pytest.mark.parametrize("later", [0, 5])
def test_what_became_too_old_while_the_flow_was_paused_is_a_gap(
    eager: Side, target: Side, later: int
) -> None:
    flow, topic, remote = two_partitions(eager, target)
    for partition in (0, 1):
        eager.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    flow.copy()
    eager.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 10)
    eager.alter(topic, "retention.ms", "1")
    until = time.monotonic() + 30
    while (eager.first(topic, 0), eager.first(topic, 1)) != (20, 10):
        assert time.monotonic() < until, "nothing became too old"
        time.sleep(0.1)
    eager.alter(topic, "retention.ms", "-1")
    if later:
        eager.write(topic, 0, [Record(0, NOW, b"k", BIG)] * later)
    eager.write(topic, 1, [Record(0, NOW, b"k", BIG)])
    error = only_error(stopped(flow))
    assert (error.partition, error.state, error.code, error.offset) == (
        0,
        "gap",
        "out_of_range",
        10,
    )
    assert "begins at 20" in error.reason
    assert "10 to 19" in error.reason
    assert len(target.read(remote, 0)) == 10
    assert len(target.read(remote, 1)) == 11
