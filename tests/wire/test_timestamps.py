"""Timestamps as far apart as 64 bits allow, in one batch: deltas wrap, as in Java."""

from __future__ import annotations

import itertools

from spark_runner.engine.batches import repack
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol import varint
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE
from spark_runner.kafka_protocol.records import encode_record, frame_batch, read_header
from spark_runner.native.crc32c import address_of

MAX_VERSION, MIN_VERSION = 2**63 - 1, -(2**63)
TIMES = (-1, MAX_VERSION, 1_700_000_000_000, MIN_VERSION, 0, MAX_VERSION - 5)


def as_long(value: int) -> int:
    return (value - MIN_VERSION) % 2**64 + MIN_VERSION


def batch(first: int, times: tuple[int, ...], *, deltas: list[int] | None = None) -> PendingBatch:
    """As Java writes it: a delta is a `long`."""
    places = deltas or list(range(len(times)))
    body = b"".join(
        encode_record(place, as_long(time - times[0]), b"k", b"v")
        for place, time in zip(places, times, strict=True)
    )
    made = frame_batch(first, 0, body, places[-1], times[0], max(times), len(times))
    return PendingBatch(
        None, memoryview(made), 0, address_of(made), read_header(memoryview(made)), ""
    )


def times_in(batch: PendingBatch) -> list[int]:
    """As Java reads them: no varlong has more than 64 bits, and a sum wraps."""
    body, at, found = bytes(batch.memory[HEADER_SIZE:]), 0, []
    for _ in range(batch.records):
        size, at = varint.read_signed(body, at)
        raw, _ = varint.read_unsigned(body, at + 1)
        assert raw < 2**64
        found.append(as_long(batch.header.base_timestamp + ((raw >> 1) ^ -(raw & 1))))
        at += size
    return found


def test_batches_of_times_far_apart_are_merged_with_every_time_as_it_was() -> None:
    for times in itertools.permutations(TIMES, 3):
        group = [batch(at, (time,)) for at, time in enumerate(times)]
        built, too_large = repack.rebuild(group, TopicSettings())
        assert too_large is None
        assert [time for made in built for time in times_in(made)] == list(times)
        assert built[0].header.max_timestamp == max(times)


def test_a_batch_of_times_far_apart_is_written_anew_with_every_time_as_it_was() -> None:
    for times in itertools.permutations(TIMES, 2):
        holed = batch(7, (*times, times[0]), deltas=[0, 2, 3])
        built, too_large = repack.rebuild([holed], TopicSettings())
        assert too_large is None
        assert [time for made in built for time in times_in(made)] == [*times, times[0]]
        parts = batch(7, times)
        parts.split_at = (1,)
        cut = repack.split(parts, TopicSettings())
        assert [time for made in cut for time in times_in(made)] == list(times)
