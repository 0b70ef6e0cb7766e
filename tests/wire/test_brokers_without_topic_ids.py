"""Brokers without topic ids: nothing is committed before the topics are verified."""

from __future__ import annotations

from typing import Any

import pytest

from spark_runner.engine import copy_loop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW
from tests.wire.world import Driver, Flow, Side, soon, unique


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_what_was_read_under_a_name_that_means_another_topic_is_no_progress(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    topic = unique("named")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3)
    flow = Flow(source, target, commit_interval_ms="50", delivery=delivery)
    flow.add(topic)
    flow.copy(RawCopier(newest_fetch=12))
    source.write(topic, 0, [Record(0, NOW, b"another's", BIG)] * 6)
    another = StopReason("gap", "generation", "It was deleted and created again.")

    def changed(_: object, partitions: list[Partition], **__: Any) -> dict[Partition, StopReason]:
        return {partition: another for partition in partitions if partition.acknowledged_offset > 3}

    monkeypatch.setattr(copy_loop, "changed_topics", changed)
    driver = Driver(until=lambda driver: any(row.errors for row in driver.figures))
    result = RawCopier(newest_fetch=12).run(flow.work(seconds=15), driver)  # type: ignore[arg-type]
    assert [error.code for error in result.errors] == ["generation"]
    known = PositionReader(target.client, flow.positions_topic).read(soon())
    assert known[topic, 0].position == 3
