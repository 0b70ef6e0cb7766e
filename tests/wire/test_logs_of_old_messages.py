"""Logs from before Kafka 0.11 through the whole engine, record by record.

Brokers since 4.0 store no such messages. So the source holds current batches, and its replies are
converted to the bytes that an older broker would send.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from spark_runner.engine.batches.header_scan import OLD_FORMAT
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import CONTROL
from spark_runner.kafka_protocol.records import Record, batches, decode_batch, read_header
from tests.wire.stops import NOW
from tests.wire.test_old_messages import lz4_of_format_0, message
from tests.wire.world import Flow, Side, unique

EACH = 5
BATCHES = 3
Convert = Callable[[memoryview], bytes]

each_format = pytest.mark.parametrize("magic", [0, 1])


def singles(magic: int) -> Convert:
    return lambda batch: b"".join(
        message(magic, row.offset, row.timestamp, row.key, row.value) for row in decode_batch(batch)
    )


def wrapper(magic: int, codec: int) -> Convert:
    """Relative offsets inside in format 1, absolute ones in format 0; the last one outside."""

    def convert(batch: memoryview) -> bytes:
        rows = list(decode_batch(batch))
        inner = b"".join(
            message(magic, at if magic else row.offset, row.timestamp, row.key, row.value)
            for at, row in enumerate(rows)
        )
        packed = (
            lz4_of_format_0(inner)
            if (magic, codec) == (0, compression.LZ4)
            else bytes(compression.compress(codec, inner))
        )
        return message(magic, rows[-1].offset, rows[-1].timestamp, None, packed, codec)

    return convert


def replies_become_old(patch: pytest.MonkeyPatch, convert: Convert) -> None:
    plain = FetchConnection.read

    def read(connection: FetchConnection, *facts: Any) -> Any:
        buffer, rows = plain(connection, *facts)
        at = max((row.stop for row in rows), default=0)
        found = []
        for row in rows:
            data = _old(buffer, row.start, row.stop, convert)
            buffer.view[at : at + len(data)] = data
            found.append(row._replace(start=at, stop=at + len(data)))
            at += len(data)
        return buffer, found

    patch.setattr(FetchConnection, "read", read)


def _old(buffer: ReceiveBuffer, start: int, stop: int, convert: Convert) -> bytes:
    return b"".join(map(convert, batches(buffer.view[start:stop])))


def records(batch: int) -> list[Record]:
    return [
        Record(0, NOW + batch, None if at == 1 else b"%d" % batch, None if at == 3 else b"%d" % at)
        for at in range(EACH)
    ]


def filled(source: Side, partitions: int = 1, count: int = BATCHES) -> str:
    topic = unique("old")
    source.make(topic, partitions)
    for partition in range(partitions):
        for batch in range(count):
            source.write(topic, partition, records(batch))
    return topic


def wanted(source: Side, topic: str, partition: int, magic: int) -> list[tuple[Any, ...]]:
    return [
        (row.timestamp if magic else -1, row.key, row.value)
        for row in source.read(topic, partition)
    ]


def found(target: Side, remote: str, partition: int = 0) -> list[tuple[Any, ...]]:
    return [(row.timestamp, row.key, row.value) for row in target.read(remote, partition)]


@each_format
@pytest.mark.parametrize("codec", [None, compression.GZIP, compression.SNAPPY, compression.LZ4])
def test_old_messages_cross_as_the_records_they_are(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, magic: int, codec: int | None
) -> None:
    topic = filled(source)
    flow = Flow(source, target)
    remote = flow.add(topic)
    replies_become_old(monkeypatch, singles(magic) if codec is None else wrapper(magic, codec))
    result, _ = flow.copy()
    assert (result.ended_because, result.errors) == ("stop", ()), result
    assert result.records == EACH * BATCHES
    assert [(row.lane, row.why) for row in result.lanes] == [("repack", OLD_FORMAT)]
    assert found(target, remote) == wanted(source, topic, 0, magic)
    data = [row for row in target.headers(remote) if not row.attributes & CONTROL]
    assert {row.codec for row in data} == {codec or compression.NONE}
    assert flow.runs(topic) == [(0, 0, EACH * BATCHES)]


@each_format
def test_a_flow_goes_on_and_ends_inside_a_wrapper(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, magic: int
) -> None:
    """Partition n begins at offset n, and ends seven records behind it."""
    topic = filled(source, 9)
    flow = Flow(source, target)
    remote = flow.add(topic)
    flow.rows = [
        dataclasses.replace(row, start=row.partition, stop=row.partition + 7) for row in flow.rows
    ]
    replies_become_old(monkeypatch, wrapper(magic, compression.GZIP))
    result, _ = flow.copy(ends={(topic, partition): partition + 7 for partition in range(9)})
    assert (result.ended_because, result.errors) == ("stop", ()), result
    for partition in range(9):
        rest = wanted(source, topic, partition, magic)[partition : partition + 7]
        assert found(target, remote, partition) == rest
        assert flow.runs(topic, partition) == [(partition, 0, 7)]


def cut_off(batch: memoryview) -> bytes:
    """A wrapper, itself whole, whose second message is not."""
    inner = message(1, 0, NOW, b"k", b"v")
    packed = bytes(compression.compress(compression.GZIP, inner + inner[:9]))
    return message(1, read_header(batch).last_offset, NOW, None, packed, compression.GZIP)


def flipped(batch: memoryview) -> bytes:
    return bytes(batch[:-1]) + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [(wrapper(1, compression.GZIP), cut_off), (bytes, flipped)],
    ids=["old", "today"],
)
def test_a_damaged_batch_among_small_ones_stops_its_partition_behind_those_before_it(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, whole: Convert, damaged: Convert
) -> None:
    topic = filled(source, 2, 6)
    bad = 2 * EACH
    replies_become_old(
        monkeypatch,
        lambda batch: (damaged if read_header(batch).base_offset == bad else whole)(batch),
    )
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    result, _ = flow.copy(ends={(topic, partition): bad for partition in range(2)}, seconds=8)
    errors = {(error.partition, error.code, error.offset) for error in result.errors}
    assert errors == {(0, "corrupt_source", bad), (1, "corrupt_source", bad)}
    for partition in range(2):
        assert len(found(target, remote, partition)) == bad
