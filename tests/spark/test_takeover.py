"""A flow goes on exactly where MirrorMaker 2 stood, whatever its connectors were called."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from mirrors.domain.records import ConnectOffset
from mirrors.kafka.internal import InternalRecord
from spark_runner.positions_from_mm2 import OURS, mm2_positions
from tests.spark.lab import Flow, Lab
from tests.spark.reading import records


def mm2_stood_at(flow: Flow, topic: str, offset: int, connector: str, partition: int = 0) -> None:
    """What Connect writes: the last offset that was copied."""
    row = ConnectOffset(
        cluster=flow.source_alias,
        topic=topic,
        partition=partition,
        offset=offset,
        connector=connector,
    )
    producer = Producer({"bootstrap.servers": flow.lab.target, "log_level": 0})
    name = f"mm2-offsets.{flow.source_alias}.internal"
    producer.produce(name, row.value, row.key, row.kafka_partition(25))
    assert producer.flush(20) == 0


def mm2_ran(flow: Flow, *topics: str) -> None:
    """MM2's own topic of positions, and the remote topics that it filled."""
    wanted = [NewTopic(f"mm2-offsets.{flow.source_alias}.internal", 25, 1)]
    wanted += [NewTopic(flow.remote(topic), 1, 1) for topic in topics]
    for made in flow.lab.on_target.create_topics(wanted).values():
        made.result(20)


def copied(flow: Flow, topic: str) -> list[str]:
    return [(row[1] or b"").decode() for row in records(flow.lab.target, flow.remote(topic))[0]]


@pytest.mark.parametrize("style", ["MirrorSourceConnector", "{}->{}.MirrorSourceConnector"])
def test_the_first_start_goes_on_where_mm2_stopped(lab: Lab, style: str) -> None:
    flow = lab.flow()
    old, new = lab.create(flow.topic("old")), lab.create(flow.topic("new"))
    lab.write(old, range(10))
    mm2_ran(flow, old)
    connector = style.format(flow.source_alias, f"{flow.name}b")
    mm2_stood_at(flow, old, 3, connector)
    mm2_stood_at(flow, old, 6, connector)
    # The remote topic of this one is gone: a position alone brings no record back.
    mm2_stood_at(flow, new, 0, connector)
    lab.write(new, range(3))
    flow.start().wait_in_sync(old, new)
    assert copied(flow, old) == ["7", "8", "9"]
    assert copied(flow, new) == ["0", "1", "2"]
    status = flow.status()
    assert status is not None
    assert "One partition goes on where MirrorMaker 2 stood" in " ".join(status.warnings)
    flow.stop()


def test_mm2_may_go_on_in_between_and_is_followed_forward_only(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("relay"))
    lab.write(topic, range(5))
    flow.start().wait_in_sync(topic)
    flow.stop()
    lab.write(topic, range(5, 12))
    # A flow that has stopped may still be writing its positions for MM2, which comes after that.
    time.sleep(2)
    mm2_stood_at(flow, topic, 8, "MirrorSourceConnector")
    flow.restart()
    flow.wait_in_sync(topic)
    assert copied(flow, topic) == ["0", "1", "2", "3", "4", "9", "10", "11"]
    flow.stop()
    mm2_stood_at(flow, topic, 2, "MirrorSourceConnector")
    flow.restart()
    flow.wait_in_sync(topic)
    assert len(copied(flow, topic)) == 8
    flow.stop()


def _record(at: int, row: ConnectOffset, *headers: tuple[str, bytes]) -> InternalRecord:
    return InternalRecord(0, at, at, row.key, row.value, headers)


def test_our_own_copy_and_other_sources_are_no_predecessor() -> None:
    def row(offset: int | None, connector: str = "MirrorSourceConnector") -> ConnectOffset:
        return ConnectOffset(
            cluster="a", topic="t", partition=0, offset=offset, connector=connector
        )

    theirs, ours = _record(1, row(5)), _record(2, row(9), OURS)
    assert mm2_positions([theirs], "a") == {("t", 0): 6}
    assert mm2_positions([theirs], "b") == {}
    assert mm2_positions([theirs, ours], "a") == {}
    assert mm2_positions([_record(1, row(5, "a->b.MirrorSourceConnector")), ours], "a") == {}
    assert mm2_positions([ours, _record(3, row(11))], "a") == {("t", 0): 12}
    assert mm2_positions([theirs, _record(3, row(None))], "a") == {}
    assert mm2_positions([InternalRecord(0, 0, 0, b"x", b"y")], "a") == {}
