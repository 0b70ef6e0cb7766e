"""What a program with WRITE on the positions topic can do to a flow, and what it cannot."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from confluent_kafka import Producer

from mirrors.domain.internal_topics.records import Position
from tests.spark.lab import Flow, Lab, partition_row
from tests.spark.test_positions import positions


def forge(lab: Lab, flow: Flow, row: Position, value: bytes | None = None, **changes: Any) -> None:
    """Write a position as another program on the target does."""
    forged = dataclasses.replace(row, **changes)
    producer = Producer({"bootstrap.servers": lab.target, "log_level": 0})
    place = f"mm2-positions.{flow.source_alias}.internal"
    producer.produce(place, key=forged.key, value=forged.value if value is None else value)
    assert producer.flush(30) == 0


def copied(lab: Lab, flow: Flow, topic: str) -> list[int]:
    rows = lab.read(flow.remote(topic), target=True)[0]
    return [int(value or b"-1") for _, value, _, _ in rows]


def stopped_flow(lab: Lab, name: str) -> tuple[Flow, str, Position]:
    """It has copied ten records; ten more wait on the source."""
    flow = lab.flow()
    topic = lab.create(flow.topic(name))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.stop()
    lab.write(topic, range(10, 20))
    return flow, topic, positions(lab, flow.source_alias)[0][topic, 0]


def test_a_position_within_the_log_skips_or_repeats_records(lab: Lab) -> None:
    """Of the flow's own topics; nothing else is read or written."""
    for at, expected in ((15, [*range(10), *range(15, 20)]), (4, [*range(10), *range(4, 20)])):
        flow, topic, row = stopped_flow(lab, f"moved-{at}")
        forge(lab, flow, row, position=at)
        flow.restart()
        flow.wait_in_sync(topic)
        flow.stop()
        assert copied(lab, flow, topic) == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"position": 1000}, "was truncated"),
        ({"source_topic_id": "A" * 22}, "was deleted and created again"),
        ({"target_topic_id": "A" * 22}, "copied into another remote topic before"),
        ({"source_cluster": "other"}, "now leads to another cluster"),
    ],
)
def test_a_position_that_cannot_be_stops_its_partition(
    lab: Lab, change: dict[str, Any], words: str
) -> None:
    flow, topic, row = stopped_flow(lab, "impossible")
    forge(lab, flow, row, **change)
    flow.restart()
    status = flow.wait(lambda s: (found := partition_row(s, topic)) is not None and found.reason)
    found = partition_row(status, topic)
    assert found is not None
    assert (found.state, words in found.reason) == ("gap", True)
    flow.stop()
    assert copied(lab, flow, topic) == list(range(10))


def test_what_is_no_position_stops_the_flow_with_the_reason(lab: Lab) -> None:
    flow, topic, row = stopped_flow(lab, "junk")
    forge(lab, flow, row, b"{")
    flow.restart()
    status = flow.wait_state("degraded")
    assert "holds a record that is not a position" in status.reason
    flow.remove()
    assert copied(lab, flow, topic) == list(range(10))
