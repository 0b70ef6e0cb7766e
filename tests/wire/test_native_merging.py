"""The C functions merge batches to the same bytes as the Python code, or leave them to it."""

from __future__ import annotations

import random
import struct

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.batches import merge
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol import batch_header as batches
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE, checksum_holds
from spark_runner.kafka_protocol.records import Record, encode_batch, frame_batch
from spark_runner.native import c_functions
from spark_runner.native.crc32c import address_of, crc32c_address
from tests.machine_code import c_module_alone
from tests.wire.batch_strategies import (
    pending_batch,
    plain,
    source_batches,
    starved_groups,
    wrapped,
)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def _is_made() -> None:
    c_module_alone()


def merged(group: list[PendingBatch], codec: int) -> bytearray | None:
    quick = compression.ACCELERATION if len(group) > 1 else 1
    sizes = [one.size for one in group]
    found: bytearray | None = c_module_alone().merge(
        [one.address for one in group], sizes, codec, quick
    )
    return found


def merged_in_python(group: list[PendingBatch], codec: int) -> bytearray | None:
    """What the Python makes of it; None as well where that makes no sense."""
    try:
        return merge.merge_python(group, codec)
    except (IndexError, ValueError, struct.error):
        return None


def same(one: bytearray, other: bytearray) -> None:
    assert plain(one) == plain(other)
    assert checksum_holds(memoryview(one), 0, address_of(one), len(one))


def test_these_tests_compare_two_things() -> None:
    assert c_functions.c_module is None
    assert c_module_alone().__file__


@given(starved_groups(), st.sampled_from([compression.NONE, compression.LZ4]))
def test_small_batches_are_merged_as_the_python_splices_them(
    group: list[PendingBatch], codec: int
) -> None:
    found, wanted = merged(group, codec), merge.merge_python(group, codec)
    assert found is not None
    assert wanted is not None
    same(found, wanted)
    # Packed as tightly, too.
    assert len(found) == len(wanted)


@given(source_batches(), st.integers(0, 4))
def test_batches_of_any_codec_are_merged_so_or_left_alone(
    drawn: list[tuple[int, list[Record]]], codec: int
) -> None:
    group = [
        pending_batch(
            packed, [row._replace(offset=rows[0].offset + at) for at, row in enumerate(rows)]
        )
        for packed, rows in drawn
    ]
    found = merged(group, codec)
    known = {compression.NONE, compression.LZ4}
    assert (found is not None) == ({codec, *(packed for packed, _ in drawn)} <= known)
    if found is not None:
        same(found, merge.merge_python(group, codec) or bytearray())


@pytest.mark.parametrize("base", [-(2**63), -1, 0, 2**63 - 1])
@pytest.mark.parametrize("step", [-(2**63), -(2**62), 2**61, 2**63 - 1])
def test_times_that_wrap_are_merged_as_the_python_splices_them(base: int, step: int) -> None:
    """Deltas of more than 63 bits are the Python's alone."""
    group = [
        pending_batch(
            compression.NONE, [Record(at, base, b"k", b"v"), Record(at + 1, base, b"k", None)]
        )
        for at in (0, 2)
    ]
    for one in group[1:]:
        header = struct.pack(">q", step)
        one.memory[27:35] = header
        crc = batches.crc32c_at(one.address + 21, one.size - 21)
        one.memory[17:21] = crc.to_bytes(4, "big")
        one.header = one.header._replace(base_timestamp=step, crc=crc)
    found, wanted = merged(group, compression.NONE), merged_in_python(group, compression.NONE)
    assert wanted is not None
    assert found is not None
    same(found, wanted)


@given(starved_groups(), st.randoms(use_true_random=False))
def test_a_turned_bit_is_never_merged(group: list[PendingBatch], chance: random.Random) -> None:
    one = chance.choice(group)
    at = chance.randrange(batches.CRC_FROM, one.size)
    one.memory[at] ^= 1 << chance.randrange(8)
    assert merged(group, compression.LZ4) is None


@given(starved_groups(), st.randoms(use_true_random=False), st.booleans())
def test_what_makes_no_sense_is_merged_as_the_python_takes_it_or_not_at_all(
    group: list[PendingBatch], chance: random.Random, packed: bool
) -> None:
    """Bytes inside are turned and a checksum that holds is put before them."""
    damaged = []
    for one in group:
        header = one.header
        body = bytearray(one.memory[HEADER_SIZE:])
        if not packed:
            body = bytearray(compression.decompress(header.codec, memoryview(body)))
        for _ in range(chance.randrange(3)):
            body[chance.randrange(min(len(body), chance.choice((8, 40, 4000))))] ^= (
                1 << chance.randrange(8)
            )
        if not chance.randrange(8):
            del body[chance.randrange(len(body)) :]
        codec = header.codec if packed else compression.NONE
        records = header.records + chance.choice((0, 0, 0, 0, 1, -1))
        made = frame_batch(header.base_offset, codec, body, records - 1, *header[7:9], records)
        damaged.append(wrapped(made))
    if not merge.can_merge(damaged, TopicSettings()):
        return
    found = merged(damaged, compression.LZ4)
    if found is not None:
        same(found, merged_in_python(damaged, compression.LZ4) or bytearray())


def test_more_than_is_put_together_at_once_is_left_to_the_python() -> None:
    """Small batches may hold a thousand times what they weigh."""
    group = [
        pending_batch(compression.LZ4, [Record(at, 0, b"k", bytes(6 << 20))]) for at in range(3)
    ]
    assert merged(group[:2], compression.LZ4) is not None
    assert merged(group, compression.LZ4) is None


def test_what_does_not_shrink_is_kept_as_it_is() -> None:
    chance = random.Random(5)
    rows = [Record(at, 0, None, chance.randbytes(40_000)) for at in range(9)]
    group = [pending_batch(compression.LZ4, rows)]
    found, wanted = merged(group, compression.LZ4), merge.merge_python(group, compression.LZ4)
    assert found is not None
    assert found == wanted


@pytest.mark.parametrize("stored", [True, False])
def test_a_block_that_says_less_than_it_holds_is_left_to_the_python(stored: bool) -> None:
    """The frame says how large a block may be; memory is made for that."""
    body = bytes(encode_batch([Record(0, 0, b"k", b"v" * 200_000)])[HEADER_SIZE:])
    packed = lz4.block.compress(body, store_size=False)
    block = body if stored else packed
    begun = b"\x04\x22\x4d\x18\x60\x40\x82"
    word = len(block) | (1 << 31 if stored else 0)
    frame = begun + word.to_bytes(4, "little") + block + bytes(4)
    one = wrapped(frame_batch(0, compression.LZ4, frame, 0, 0, 0, 1))
    assert merged([one], compression.LZ4) is None
    with pytest.raises(compression.DecompressionError):
        merge.merge_python([one], compression.LZ4)


def test_without_the_functions_of_others_nothing_is_merged() -> None:
    module = c_module_alone()
    group = [pending_batch(compression.LZ4, [Record(at, 0, b"k", b"v" * 90)]) for at in range(3)]
    plain_group = [
        pending_batch(compression.NONE, [Record(at, 0, b"k", b"v" * 90)]) for at in range(3)
    ]
    try:
        module.set_addresses(0, 0, 0)
        assert merged(plain_group, compression.NONE) is None
        module.set_addresses(crc32c_address, 0, 0)
        assert merged(plain_group, compression.NONE) is not None
        assert merged(plain_group, compression.LZ4) is None
        assert merged(group, compression.NONE) is None
    finally:
        c_functions.pass_addresses(module)
    assert merged(group, compression.LZ4) is not None
