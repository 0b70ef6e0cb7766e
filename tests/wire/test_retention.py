"""Retention deletes records before a paused flow read them: a gap with numbers, as after
DeleteRecords."""

from __future__ import annotations

import time

import pytest

from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW, only_error, stopped, two_partitions
from tests.wire.world import Side


@pytest.mark.parametrize("later", [0, 5])
def test_what_became_too_old_while_the_flow_was_paused_is_a_gap(
    odd_side: Side, target: Side, later: int
) -> None:
    flow, topic, remote = two_partitions(odd_side, target)
    for partition in (0, 1):
        odd_side.write(topic, partition, [Record(0, NOW, b"k", BIG)] * 10)
    flow.copy()
    odd_side.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 10)
    odd_side.alter(topic, "retention.ms", "1")
    until = time.monotonic() + 30
    while (odd_side.first(topic, 0), odd_side.first(topic, 1)) != (20, 10):
        assert time.monotonic() < until, "nothing became too old"
        time.sleep(0.1)
    odd_side.alter(topic, "retention.ms", "-1")
    if later:
        odd_side.write(topic, 0, [Record(0, NOW, b"k", BIG)] * later)
    odd_side.write(topic, 1, [Record(0, NOW, b"k", BIG)])
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
