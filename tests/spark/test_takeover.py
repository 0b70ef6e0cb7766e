"""A flow resumes exactly where MirrorMaker 2 stopped, for any names of its connectors."""

from __future__ import annotations

import dataclasses
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.offsets.run_blocks import first_run, follows, read_block
from mirrors.domain.offsets.runs import BlockKey, runs_topic
from mirrors.domain.offsets.translation import Translation, translate_between
from mirrors.kafka.internal_topics.topic import InternalRecord
from spark_runner.planning.mm2_import import mm2_positions
from spark_runner.positions.mm2_export import WRITER_HEADER
from tests.spark.lab import Flow, Lab
from tests.spark.reading import messages, records


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


def answers(flow: Flow, topic: str, *, position: int) -> list[Translation]:
    """What the topic of runs says of each offset up to the position."""
    blocks = {}
    for _, row in messages(flow.lab.target, runs_topic(flow.source_alias)):
        key, value = (None, None) if row is None else (row.key(), row.value())
        if isinstance(key, bytes) and isinstance(value, bytes):
            where = BlockKey.from_bytes(key)
            if where.topic == topic:
                blocks[where.first] = value
    order = sorted(blocks)

    def answer(upstream: int) -> Translation:
        begun = [run for at in order for run in read_block(blocks[at]) if run.upstream <= upstream]
        later = [at for at in order if at > upstream]
        above = first_run(blocks[later[0]]) if later else None
        return translate_between(
            upstream,
            position=position,
            below=begun[-1] if begun else None,
            above=above,
            follows=follows(blocks[later[0]]) if later else None,
        )

    return [answer(upstream) for upstream in range(position + 1)]


def payload(flow: Flow, topic: str, answer: Translation) -> str:
    rows = messages(flow.lab.target, flow.remote(topic))
    return next(
        (row.value() or b"").decode()
        for _, row in rows
        if row is not None and row.offset() == answer.downstream
    )


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
    assert "One partition resumes where MirrorMaker 2 stopped" in " ".join(status.warnings)
    flow.stop()


def mm2_copied(flow: Flow, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": flow.lab.target, "log_level": 0})
    for number in numbers:
        producer.produce(flow.remote(topic), str(number), partition=0)
    assert producer.flush(20) == 0
    mm2_stood_at(flow, topic, numbers[-1], "MirrorSourceConnector")


def test_mm2_may_go_on_in_between_and_is_followed_forward_only(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("relay"))
    lab.write(topic, range(5))
    flow.start().wait_in_sync(topic)
    flow.stop()
    lab.write(topic, range(5, 12))
    # A flow that has stopped may still be writing its positions for MM2, which comes after that.
    time.sleep(2)
    mm2_copied(flow, topic, range(5, 9))
    flow.restart()
    flow.wait_in_sync(topic)
    assert copied(flow, topic) == [str(number) for number in range(12)]
    flow.stop()
    found = answers(flow, topic, position=12)
    assert [row.outcome for row in found[:9]] == ["exact"] * 5 + ["unknown"] * 4
    assert [row.outcome for row in found[9:]] == ["exact"] * 4
    # Where the group really is: not behind what MM2 copied and it has not read.
    there = [None if row.downstream is None else payload(flow, topic, row) for row in found[:12]]
    assert there == [*map(str, range(5)), *[None] * 4, *map(str, range(9, 12))]
    mm2_stood_at(flow, topic, 2, "MirrorSourceConnector")
    flow.restart()
    flow.wait_in_sync(topic)
    assert len(copied(flow, topic)) == 12
    flow.stop()


def _record(at: int, row: ConnectOffset, *headers: tuple[str, bytes]) -> InternalRecord:
    return InternalRecord(0, at, at, row.key, row.value, headers)


def test_our_own_copy_and_other_sources_are_no_predecessor() -> None:
    def row(offset: int | None, connector: str = "MirrorSourceConnector") -> ConnectOffset:
        return ConnectOffset(
            cluster="a", topic="t", partition=0, offset=offset, connector=connector
        )

    theirs, ours = _record(1, row(5)), _record(2, row(9), WRITER_HEADER)
    assert mm2_positions([theirs], "a") == {("t", 0): 6}
    assert mm2_positions([theirs], "b") == {}
    assert mm2_positions([theirs, ours], "a") == {}
    assert mm2_positions([_record(1, row(5, "a->b.MirrorSourceConnector")), ours], "a") == {}
    assert mm2_positions([ours, _record(3, row(11))], "a") == {("t", 0): 12}
    assert mm2_positions([theirs, _record(3, row(None))], "a") == {}
    assert mm2_positions([InternalRecord(0, 0, 0, b"x", b"y")], "a") == {}
    unnamed = dataclasses.replace(row(5), cluster="")
    assert mm2_positions([_record(1, unnamed)], "a") == {("t", 0): 6}
