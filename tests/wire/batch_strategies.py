"""Hypothesis strategies for groups of batches: compacted logs, and small batches."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import Header
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header
from spark_runner.native.crc32c import address_of

blobs = st.none() | st.binary(max_size=60)


@st.composite
def source_batches(draw: st.DrawFn) -> list[tuple[int, list[Record]]]:
    """Batches of a log with holes anywhere: (codec, records with their offsets)."""
    found = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 5))):
        rows = []
        for _ in range(draw(st.integers(1, 8))):
            offset += draw(st.integers(1, 3))
            headers = draw(st.lists(st.tuples(st.binary(max_size=5), blobs), max_size=2))
            timestamp = draw(st.integers(-5, 2**42))
            rows.append(Record(offset, timestamp, draw(blobs), draw(blobs), tuple(headers)))
        found.append((draw(st.integers(0, 4)), rows))
    return found


def pending_batch(codec: int, rows: list[Record]) -> PendingBatch:
    batch = encode_batch(rows, codec=codec, base=rows[0].offset)
    return wrapped(batch)


def wrapped(batch: bytearray) -> PendingBatch:
    return PendingBatch(
        None, memoryview(batch), 0, address_of(batch), read_header(memoryview(batch)), ""
    )


def plain(batch: bytearray) -> tuple[Header, bytes]:
    """All that a batch says, however tightly it is packed."""
    header = read_header(memoryview(batch))
    body = compression.decompress(header.codec, memoryview(batch)[61:])
    return header._replace(length=0, crc=0), body


@st.composite
def starved_groups(draw: st.DrawFn) -> list[PendingBatch]:
    """Batches as a producer writes them that does not wait: small, alike, of up to 300 records."""
    # By a number: to draw each of thousands of records would leave room for none of them.
    chance = random.Random(draw(st.integers(0, 2**32)))
    many = draw(st.sampled_from([6, 6, 6, 70, 300]))
    sizes = [(0, 20), (0, 200), (64, 1_200), (7_900, 8_400)], [(0, 3), (0, 70), (60, 90)]
    least, most = draw(st.sampled_from(sizes[many > 6]))
    ticks = (0, 1, 1, 5, 70) if many == 6 else (*[0] * 29, 1)
    gap = draw(st.sampled_from([0, 1, 7, 300, 5_000]))
    group: list[PendingBatch] = []
    offset, now = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**42))
    for _ in range(draw(st.integers(1, 30 if many == 6 else 4))):
        rows = []
        for _ in range(chance.choice((chance.randint(1, 6), many))):
            now += chance.choice(ticks) if gap else 0
            rows.append(Record(offset, now, b"k", chance.randbytes(chance.randint(least, most))))
            offset += 1
        group.append(pending_batch(chance.choice((compression.NONE, compression.LZ4)), rows))
        now += gap
    return group
