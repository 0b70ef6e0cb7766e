"""Batch headers, their stamping, sequences, varints, codecs: properties without a broker."""

from __future__ import annotations

import concurrent.futures
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.batches.header_scan import AbortedFilter
from spark_runner.kafka_protocol import compression, varint
from spark_runner.kafka_protocol.batch_header import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchStamper,
    Header,
    Sequences,
    UnsafeHeader,
    checksum_holds,
    sequence_of,
)
from spark_runner.kafka_protocol.crc32c_patch import make_tables, patched
from spark_runner.kafka_protocol.records import Record, decode_batch, encode_batch, read_header
from spark_runner.native.crc32c import address_of, crc32c, crc32c_at

blobs = st.none() | st.binary(max_size=40)
records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-5, 2**42),
        blobs,
        blobs,
        st.lists(st.tuples(st.binary(max_size=8), blobs), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def numbered(rows: list[Record]) -> list[Record]:
    return [row._replace(offset=at) for at, row in enumerate(rows)]


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_varints_are_read_back(value: int) -> None:
    data = varint.signed(value)
    assert varint.read_signed(data, 0) == (value, len(data))


@given(records, st.integers(0, 4))
def test_batches_are_read_back_with_every_codec(rows: list[Record], codec: int) -> None:
    batch = memoryview(encode_batch(numbered(rows), codec=codec))
    assert list(decode_batch(batch)) == numbered(rows)


@given(st.binary(max_size=5000), st.integers(0, 4))
def test_every_codec_gives_back_what_it_got(data: bytes, codec: int) -> None:
    assert compression.decompress(codec, memoryview(compression.compress(codec, data))) == data
    assert (
        compression.decompress(codec, memoryview(compression.compress_quickly(codec, data))) == data
    )


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damaged_compressed_bytes_are_unreadable_not_a_crash(codec: int) -> None:
    packed = bytearray(compression.compress(codec, b"some words " * 100))
    for cut in (packed[:-4], b"\x00" * 20, packed[: len(packed) // 2]):
        with pytest.raises(compression.DecompressionError):
            compression.decompress(codec, memoryview(bytes(cut)))
        # What was left half read is forgotten.
        assert compression.decompress(codec, memoryview(packed)) == b"some words " * 100


@pytest.mark.parametrize("codec", range(5))
def test_threads_unpack_at_the_same_time(codec: int) -> None:
    """The driver's threads do, and what is kept for the next time is for one thread alone."""

    def unpack(number: int) -> bool:
        data = bytes([number]) * 300_000 + random.Random(number).randbytes(300_000)
        packed = memoryview(compression.compress(codec, data))
        return all(compression.decompress(codec, packed) == data for _ in range(20))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(unpack, range(8)))


@given(st.binary(min_size=1, max_size=200), st.integers(0, 50))
def test_checksums_by_address_are_those_of_the_bytes(data: bytes, start: int) -> None:
    memory = bytearray(data)
    start = min(start, len(memory))
    assert crc32c_at(address_of(memory) + start, len(memory) - start) == crc32c(data[start:])


@given(records, st.integers(0, 2**40), st.integers(0, 2**15 - 1))
def test_the_pen_changes_nothing_but_what_is_ours(
    rows: list[Record], producer: int, epoch: int
) -> None:
    batch = encode_batch(numbered(rows), base=0)
    before = read_header(memoryview(batch))
    pen, sequences = BatchStamper(transactional=True), Sequences()
    pen.take(producer, epoch)
    pen.write(memoryview(batch), 0, before, sequences)
    after = read_header(memoryview(batch))
    assert checksum_holds(memoryview(batch), 0, address_of(batch), len(batch))
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (producer, epoch, 0)
    assert after.attributes == before.codec | TRANSACTIONAL
    assert (after.base_offset, after.leader_epoch) == (0, -1)
    assert list(decode_batch(memoryview(batch))) == numbered(rows)


@given(records, st.integers(0, 10_000))
def test_a_flipped_bit_is_never_blessed(rows: list[Record], where: int) -> None:
    batch = encode_batch(numbered(rows))
    header = read_header(memoryview(batch))
    batch[61 + where % (len(batch) - 61)] ^= 1 << where % 8
    pen = BatchStamper(transactional=True)
    pen.take(5, 1)
    pen.write(memoryview(batch), 0, header, Sequences())
    assert not checksum_holds(memoryview(batch), 0, address_of(batch), len(batch))


@given(st.binary(max_size=300), st.integers(0, 2**21), st.randoms(use_true_random=False))
def test_a_patched_checksum_is_that_of_the_patched_bytes(
    body: bytes, more: int, chance: random.Random
) -> None:
    old, new = chance.randbytes(40), chance.randbytes(40)
    body += bytes(more)
    assert patched(crc32c(old + body), old, new, len(body)) == crc32c(new + body)


def test_tables_made_ahead_of_time_are_those_that_are_made_when_needed() -> None:
    make_tables()
    old, new = bytes(40), b"\x01" * 40
    for size in [1, 63, 64, 65, 4095, 4096, 31_939]:
        body = b"\x02" * size
        assert patched(crc32c(old + body), old, new, size) == crc32c(new + body)


def one_batch(attributes: int = 0) -> tuple[bytearray, Header]:
    batch = encode_batch([Record(0, 1, b"k", b"v")])
    batch[22] = attributes
    return batch, read_header(memoryview(batch))


def test_a_control_batch_is_never_written() -> None:
    batch, header = one_batch(CONTROL | TRANSACTIONAL)
    pen = BatchStamper(transactional=True)
    pen.take(1, 0)
    with pytest.raises(UnsafeHeader):
        pen.write(memoryview(batch), 0, header, Sequences())


def test_nothing_is_written_before_the_producer_is_initialised() -> None:
    with pytest.raises(UnsafeHeader):
        BatchStamper(transactional=True).take(-1, -1)


@pytest.mark.parametrize("transactional", [True, False])
def test_the_transactional_bit_is_that_of_the_delivery_whatever_the_source_had(
    transactional: bool,
) -> None:
    for attributes in (0, TRANSACTIONAL, LOG_APPEND_TIME, 0x40, 0x3 | TRANSACTIONAL):
        batch, header = one_batch(attributes)
        pen = BatchStamper(transactional=transactional)
        pen.take(1, 0)
        pen.write(memoryview(batch), 0, header, Sequences())
        written = read_header(memoryview(batch)).attributes
        assert bool(written & TRANSACTIONAL) == transactional
        assert not written & ~(TRANSACTIONAL | 0x7)


def test_an_earlier_epoch_is_never_written_again() -> None:
    pen, sequences = BatchStamper(transactional=True), Sequences()
    pen.take(7, 3)
    assert sequences.take(7, 3, 10) == 0
    with pytest.raises(UnsafeHeader):
        pen.take(7, 2)
    with pytest.raises(UnsafeHeader):
        sequences.take(7, 2, 1)


@given(st.lists(st.integers(1, 2**30), min_size=1, max_size=30))
def test_no_sequence_is_given_out_twice_and_they_wrap(counts: list[int]) -> None:
    sequences = Sequences()
    expected = 0
    for count in counts:
        assert sequences.take(1, 0, count) == expected
        expected = (expected + count) % 2**31


def test_sequences_begin_at_zero_under_a_new_epoch_or_producer() -> None:
    sequences = Sequences()
    assert [sequences.take(1, 0, 5), sequences.take(1, 0, 5)] == [0, 5]
    assert [sequences.take(1, 1, 5), sequences.take(2, 0, 5)] == [0, 0]


def test_the_sequence_of_a_written_batch_can_be_read() -> None:
    batch, header = one_batch()
    pen, sequences = BatchStamper(transactional=True), Sequences()
    pen.take(1, 0)
    sequences.take(1, 0, 41)
    pen.write(memoryview(batch), 0, header, sequences)
    assert sequence_of(memoryview(batch)) == 41


def data(offset: int, producer: int) -> Header:
    return Header(offset, 100, 0, 2, 0, TRANSACTIONAL, 0, 0, 0, producer, 0, 0, 1)


def test_a_producer_is_aborted_from_its_first_aborted_offset_to_its_marker() -> None:
    aborted = AbortedFilter([(5, 9), (20, 9)])
    assert not aborted.is_aborted(data(4, 9))
    assert aborted.is_aborted(data(5, 9))
    assert not aborted.is_aborted(data(6, 8))
    aborted.ended(data(7, 9))
    assert not aborted.is_aborted(data(8, 9))
    assert aborted.is_aborted(data(20, 9))
