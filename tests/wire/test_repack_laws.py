"""Repacking keeps every byte of every record, and its upstream offsets."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.batches import merge, repack
from spark_runner.engine.batches.record_bytes import assemble, read_records
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import (
    Record,
    decode_batch,
    encode_batch,
    frame_batch,
    read_header,
)
from spark_runner.native.crc32c import address_of
from tests.wire.batch_strategies import (
    pending_batch,
    plain,
    source_batches,
    starved_groups,
    wrapped,
)


def unwound(built: list[PendingBatch]) -> list[Record]:
    """The records with the upstream offsets that the stretches claim for them."""
    found = []
    for made in built:
        rows = list(decode_batch(made.memory))
        assert [row.offset for row in rows] == list(range(len(rows)))
        offsets = [first + at for first, count in made.offset_ranges for at in range(count)]
        found += [row._replace(offset=offset) for row, offset in zip(rows, offsets, strict=True)]
    return found


@given(source_batches(), st.integers(0, 4))
def test_whole_batches_spliced_are_the_batch_that_record_by_record_gives(
    batches: list[tuple[int, list[Record]]], codec: int
) -> None:
    whole = [
        (packed, [row._replace(offset=rows[0].offset + at) for at, row in enumerate(rows)])
        for packed, rows in batches
    ]
    # Not consecutive either, where the shortened batches leave room between them.
    group = [pending_batch(packed, rows) for packed, rows in whole]
    merged_in_python = merge.merge_python(group, codec)
    pieces = [
        piece
        for one in group
        for piece in read_records(one.memory, one.header, keep_append_time=True)
    ]
    assert plain(merged_in_python) == plain(assemble(pieces, codec))
    offsets = [
        at for first, count in merge.offset_ranges(group) for at in range(first, first + count)
    ]
    assert offsets == [row.offset for _, rows in whole for row in rows]


@given(starved_groups(), st.sampled_from([compression.NONE, compression.LZ4]))
def test_small_batches_spliced_are_the_batch_that_record_by_record_gives(
    group: list[PendingBatch], codec: int
) -> None:
    pieces = [
        piece
        for one in group
        for piece in read_records(one.memory, one.header, keep_append_time=True)
    ]
    assert plain(merge.merge_python(group, codec)) == plain(assemble(pieces, codec))


@pytest.mark.parametrize("records", [63, 64, 65, 66, 100, 127, 128, 129, 300])
@pytest.mark.parametrize("size", [40, 60, 200])
def test_batches_of_many_small_records_are_spliced_byte_by_byte_too(
    records: int, size: int
) -> None:
    """An offset delta of 64 and more has two bytes, the first of which looks like its double."""
    group = []
    for first in (0, records):
        rows = [
            Record(first + at, 1_700_000_000_000 + at // 9, b"k", bytes([at % 251]) * size)
            for at in range(records)
        ]
        group.append(pending_batch(compression.LZ4, rows))
    pieces = [
        piece
        for one in group
        for piece in read_records(one.memory, one.header, keep_append_time=False)
    ]
    merged_in_python = merge.merge_python(group, compression.LZ4)
    assert plain(merged_in_python) == plain(assemble(pieces, compression.LZ4))


@given(starved_groups(), st.randoms(use_true_random=False))
def test_bytes_that_make_no_sense_are_not_spliced_to_something_else(
    group: list[PendingBatch], chance: random.Random
) -> None:
    """What it does not understand it leaves; attributes that Kafka does not use yet it keeps."""
    bodies = [compression.decompress(one.header.codec, one.memory[61:]) for one in group]
    damaged = []
    for one, body in zip(group, bodies, strict=True):
        bent = bytearray(body)
        if not chance.randrange(3):
            bent[chance.randrange(min(8, len(bent)))] ^= 1 << chance.randrange(8)
        header = one.header
        batch = frame_batch(
            header.base_offset, compression.NONE, bent, *header[6:9], header.records
        )
        damaged.append(wrapped(batch))
    try:
        merged_in_python = merge.merge_python(damaged, compression.NONE)
    except (IndexError, ValueError, struct.error):
        return
    if merged_in_python is None:
        return
    pieces = [
        piece
        for one in damaged
        for piece in read_records(one.memory, one.header, keep_append_time=True)
    ]
    header, body = plain(merged_in_python)
    wanted, wanted_body = plain(assemble(pieces, compression.NONE))
    assert body == wanted_body
    # The newest time is the header's word, as in the raw lane.
    assert header._replace(max_timestamp=0) == wanted._replace(max_timestamp=0)


def test_merged_batches_are_not_larger_than_what_they_are_made_of() -> None:
    chance = random.Random(4)
    group = [
        pending_batch(
            compression.LZ4,
            [
                Record(
                    number * 6 + at,
                    at,
                    chance.randbytes(8),
                    b'{"order":%d,"name":"%s","state":"paid"}'
                    % (at, chance.randbytes(200).hex().encode()),
                )
                for at in range(6)
            ],
        )
        for number in range(50)
    ]
    merged_in_python = merge.merge_python(group, compression.LZ4)
    assert merged_in_python is not None
    assert len(merged_in_python) < sum(one.size for one in group)


def test_a_batch_whose_offsets_are_not_in_a_row_is_not_spliced() -> None:
    rows = [Record(at, 5, b"k", b"v") for at in (0, 2, 3)]
    holed = pending_batch(compression.NONE, rows)
    assert not merge.can_merge([holed], TopicSettings())
    # A header that hides the hole is not believed.
    assert merge.merge_python([holed], compression.NONE) is None


@given(source_batches(), st.none() | st.integers(0, 4), st.integers(0, 40))
def test_merged_batches_hold_the_same_records_from_the_position_on(
    batches: list[tuple[int, list[Record]]], codec: int | None, cut: int
) -> None:
    group = [pending_batch(*batch) for batch in batches]
    position = group[0].first + cut
    group[0].first = position
    built, too_large = repack.rebuild(group, TopicSettings(codec=codec))
    wanted = [row for _, rows in batches for row in rows if row.offset >= position]
    assert too_large is None
    assert unwound(built) == wanted
    if built:
        assert built[-1].after == group[-1].after
        assert {made.header.codec for made in built} == {batches[0][0] if codec is None else codec}


@given(source_batches(), st.integers(130, 400))
def test_a_limit_splits_and_what_fits_nowhere_ends_the_copy_before_it(
    batches: list[tuple[int, list[Record]]], most: int
) -> None:
    group = [pending_batch(codec, rows) for codec, rows in batches]
    built, too_large = repack.rebuild(group, TopicSettings(codec=compression.NONE, most_bytes=most))
    assert all(made.size <= most for made in built)
    wanted = [row for _, rows in batches for row in rows]
    if too_large is not None:
        offset, size = too_large
        assert size > most
        wanted = [row for row in wanted if row.offset < offset]
    assert unwound(built) == wanted


@given(source_batches(), st.integers(0, 8), st.integers(0, 100))
def test_a_split_keeps_the_records_the_next_position_and_its_leader_epoch(
    batches: list[tuple[int, list[Record]]], at: int, epoch: int
) -> None:
    batch = pending_batch(*batches[0])
    # Both may be those of a dropped range behind the batch.
    batch.after, batch.leader_epoch = batch.after + 5, epoch
    batch.split_at = (at,)
    built = repack.split(batch, TopicSettings())
    assert unwound(built) == batches[0][1]
    assert built[-1].after == batch.after
    # The source would report its log as truncated if an earlier epoch were committed.
    assert {made.leader_epoch for made in built} == {epoch}


def test_append_time_becomes_the_time_of_every_record() -> None:
    rows = [Record(at, 100 + at, b"k", b"v") for at in range(5)]
    body = bytes(memoryview(encode_batch(rows))[61:])
    batch = frame_batch(0, 0x08, body, 4, 100, 777, 5)
    built, _ = repack.rebuild([wrapped(batch)], TopicSettings(keep_append_time=True))
    assert {row.timestamp for row in decode_batch(built[0].memory)} == {777}
    built, _ = repack.rebuild([wrapped(batch)], TopicSettings(keep_append_time=False))
    assert [row.timestamp for row in decode_batch(built[0].memory)] == [100 + at for at in range(5)]


@pytest.mark.parametrize("codec", range(5))
def test_damaged_bodies_are_named_not_copied(codec: int) -> None:
    rows = [Record(at, 1, b"k" * 50, b"v" * 50) for at in range(50)]
    whole = encode_batch(rows, codec=codec)
    for cut in (len(whole) - 5, len(whole) // 2, 70):
        batch = whole[:cut]
        header = read_header(memoryview(whole))._replace(length=len(batch) - 12)
        broken = PendingBatch(None, memoryview(batch), 0, address_of(batch), header, "")
        with pytest.raises(repack.CorruptBatch):
            repack.rebuild([broken], TopicSettings())
