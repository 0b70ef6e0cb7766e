"""TransactionRepair transactions made on purpose: a batch that its coordinator does not know."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.kafka.producers.identity import ProducerIdentity
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.batch_header import BatchStamper, Sequences
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header
from tests.spark.lab import wait_for
from tests.wire.stops import LANES, NOW
from tests.wire.world import Flow, Side, bare, soon, unique

# A batch of version 11 is added to a transaction by its client, or not at all.
ADDED_BEFORE = 11


def records(count: int, value: bytes = b"v") -> list[Record]:
    return [Record(at, NOW, b"k", value) for at in range(count)]


def leave_open(
    side: Side, owner: ProducerIdentity, topic: str, rows: list[Record], partition: int = 0
) -> None:
    """A batch of a transaction that will have no marker in this partition."""
    batch = encode_batch(rows)
    pen = BatchStamper(transactional=True)
    pen.take(owner.producer_id, owner.epoch)
    pen.write(memoryview(batch), 0, read_header(memoryview(batch)), Sequences())
    connection = side.client.connection(
        side.client.describe([topic], soon())[topic].leaders[partition].node, "test", soon()
    )
    writer = produce.RequestWriter(ADDED_BEFORE, owner.transactional_id, timeout_ms=10_000)
    parts: Any = [(produce.name_key(topic), [(partition.to_bytes(4, "big"), batch)])]
    connection.send(writer.parts(connection.next_correlation(), parts), soon())
    (answer,) = produce.read_reply(connection.receive(None, soon()), ADDED_BEFORE)[1]
    assert not answer.error, answer


def last_row(target: Side, positions_topic: str, topic: str) -> Position:
    """Where partition 0 of a source topic stands."""
    rows = [
        row
        for record in target.read(positions_topic)
        if b'"topic"' in (record.key or b"")
        and isinstance(row := read_position(record.key, record.value), Position)
        and (row.topic, row.partition) == (topic, 0)
    ]
    return rows[-1]


def moved(flow: Flow, topic: str, by: int) -> Record:
    """A position record that counts `by` more records, with a marker after them."""
    known = last_row(flow.target, flow.positions_topic, topic)
    assert known.next_downstream is not None
    row = dataclasses.replace(
        known, position=known.position + by, next_downstream=known.next_downstream + by + 1
    )
    return Record(0, NOW, row.key, row.value)


def copied(source: Side, target: Side, lane: str) -> tuple[Flow, str, str, ProducerIdentity]:
    """Ten records on both sides, five more at the source; and the slice's producer."""
    topic = unique("hangs")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    source.write(topic, 0, records(10))
    result, _ = flow.copy(LANES[lane]())
    assert result.ended_because == "stop", result
    source.write(topic, 0, records(5, b"late"))
    owner = ProducerIdentity(target.client, flow.work().transactional_id, timeout_ms=60_000)
    owner.fence(soon())
    return flow, topic, remote, owner


def is_the_same(flow: Flow, topic: str, remote: str, lane: str) -> None:
    """Three more are copied; all is there once, and readers wait for nothing."""
    flow.source.write(topic, 0, records(3, b"last"))
    result, _ = flow.copy(LANES[lane](), seconds=40)
    assert (result.ended_because, result.errors) == ("stop", ()), result
    assert bare(flow.target.read(remote)) == bare(flow.source.read(topic))
    for name in (remote, flow.positions_topic):
        wait_for(
            partial(is_stable, flow.target, name), seconds=10, what=f"the last marker of {name}"
        )


def is_stable(side: Side, topic: str) -> bool:
    """Whether readers of committed records wait for nothing."""
    return side.ends(topic, committed=True) == side.ends(topic)
