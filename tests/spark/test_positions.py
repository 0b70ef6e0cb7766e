"""Where a flow starts, the positions it stores, and what MM2 reads when it takes over."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

from mirrors.domain.internal_topics.records import (
    ConnectOffset,
    Position,
    SliceCount,
    murmur2,
    read_position,
)
from tests.spark.lab import Lab, position, unique
from tests.spark.reading import records


def positions(lab: Lab, alias: str) -> tuple[dict[tuple[str, int], Position], int | None]:
    """What the positions topic says, the last of each key."""
    found: dict[tuple[str, int], Position] = {}
    count = None
    for key, value, _, _ in records(lab.target, f"mm2-positions.{alias}.internal")[0]:
        if key == b'{"owner":true}':
            continue
        row = read_position(key, value)
        if isinstance(row, SliceCount):
            count = row.count
        else:
            found[row.topic, row.partition] = row
    return found, count


def test_positions_are_committed_with_the_data_and_name_their_generation(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("t"), 3)
    lab.write(topic, range(70), 1)
    flow.start().wait_in_sync(topic)
    found, count = positions(lab, flow.source_alias)
    assert count == 2
    assert {tp: row.position for tp, row in found.items()} == {
        (topic, 0): 0,
        (topic, 1): 70,
        (topic, 2): 0,
    }
    row = found[topic, 1]
    assert row.source_cluster
    assert row.source_cluster != row.target_cluster
    assert len(row.source_topic_id) == len(row.target_topic_id) == 22
    flow.stop()


def test_a_position_that_a_person_took_away_lets_its_partition_begin_anew(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("renewed"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    lab.delete(topic)
    lab.create(topic)
    lab.write(topic, range(20))
    flow.wait(lambda s: {row.state for row in s.partitions} == {"gap"})
    flow.stop()
    writer = Producer({"bootstrap.servers": lab.target})
    name = f"mm2-positions.{flow.source_alias}.internal"
    key = json.dumps({"topic": topic, "partition": 0})
    last, _ = positions(lab, flow.source_alias)
    writer.produce(name, None, last[topic, 0].key)
    writer.produce(name, None, key.replace("renewed", "never-there"))
    assert writer.flush(20) == 0
    flow.restart()
    flow.wait_in_sync(topic)
    values = [row[1] for row in records(lab.target, flow.remote(topic))[0]]
    assert values == [str(number).encode() for number in [*range(10), *range(20)]]
    flow.stop()


def test_mm2_finds_the_positions_in_its_own_format_after_a_stop(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("mm2"), 4)
    for partition in range(3):
        lab.write(topic, range(10 + partition), partition)
    flow.start().wait_in_sync(topic)
    flow.stop()
    found = {}
    for number, rows in records(lab.target, f"mm2-offsets.{flow.source_alias}.internal").items():
        for key, value, _, _ in rows:
            offset = ConnectOffset.read(key, value)
            assert (murmur2(key or b"") & 0x7FFFFFFF) % 25 == number
            found[offset.cluster, offset.topic, offset.partition] = offset.offset
    assert found == {
        (flow.source_alias, topic, 0): 9,
        (flow.source_alias, topic, 1): 10,
        (flow.source_alias, topic, 2): 11,
    }


def test_mm2s_copy_follows_while_the_flow_runs(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("live"))
    lab.write(topic, range(5))
    flow.start().wait_in_sync(topic)
    until = time.monotonic() + 10
    name = f"mm2-offsets.{flow.source_alias}.internal"
    while not any(records(lab.target, name).values()):
        assert time.monotonic() < until
        time.sleep(0.5)
    flow.stop()


@pytest.mark.parametrize(("start", "expected"), [("earliest", 20), ("latest", 5), ("moment", 12)])
def test_a_flow_begins_where_it_was_told_to(lab: Lab, start: str, expected: int) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("from"), 2)
    now = int(time.time() * 1000)
    lab.write(topic, [{"value": b"old", "timestamp": now - 60_000} for _ in range(8)])
    lab.write(topic, [{"value": b"mid", "timestamp": now - 20_000} for _ in range(7)])
    flow.job.properties["start.from"] = str(now - 30_000) if start == "moment" else start
    flow.start().wait(lambda s: s.partitions)
    lab.write(topic, range(5))
    # Found later: from its beginning, whatever the flow was told.
    late = lab.create(flow.topic("later"))
    lab.write(late, range(9))
    flow.wait_in_sync(topic, late)
    copied = lab.read(flow.remote(topic), target=True)[0]
    assert len(copied) == expected
    assert len(lab.read(flow.remote(late), target=True)[0]) == 9
    # A restart does not ask again.
    flow.restart()
    flow.wait_in_sync(topic)
    assert lab.read(flow.remote(topic), target=True)[0] == copied
    flow.stop()


def test_latest_stays_latest_when_nothing_was_copied_before_a_restart(lab: Lab) -> None:
    flow = lab.flow()
    flow.job.properties["start.from"] = "latest"
    topic = lab.create(flow.topic("quiet"))
    lab.write(topic, range(10))
    flow.start().wait(lambda s: position(s, topic, 0) == 10)
    flow.stop()
    lab.write(topic, ["while stopped"])
    flow.restart()
    flow.wait_in_sync(topic)
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == [b"while stopped"]
    flow.stop()


def test_the_positions_topic_is_small_compacted_and_never_copied(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("own"))
    lab.write(topic, range(3))
    flow.start().wait_in_sync(topic)
    back = lab.flow(topics=".*")
    names = {f"mm2-positions.{flow.source_alias}.internal", f"mm2-offsets.{unique()}.internal"}
    back.job.properties["topics"] = "|".join(name.replace(".", r"\.") for name in names)
    back.job.source.__dict__["bootstrap_servers"] = lab.target
    back.job.target.__dict__["bootstrap_servers"] = lab.source
    status = back.start().wait_state("running")
    assert not status.partitions
    back.stop()
    flow.stop()
