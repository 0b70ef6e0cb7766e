"""A flipped bit never drops a record: dropped batches are verified."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import pytest

from spark_runner.engine.batches.header_scan import scan
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer, ReceiveBuffers
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import (
    CONTROL,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchStamper,
    checksum_holds,
)
from spark_runner.kafka_protocol.records import (
    Record,
    decode_batch,
    encode_batch,
    encode_record,
    frame_batch,
)
from spark_runner.native.crc32c import address_of

# What no checksum of a batch covers, and no reader of it can tell: its first offset, an epoch.
_UNTOLD = (*range(8), *range(12, 16))


def log() -> list[bytes]:
    """Records at 0 to 2, a marker that commits, records at 4 and 5, and again at 6 to 8."""
    marker = encode_record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\0")
    control = frame_batch(3, CONTROL | TRANSACTIONAL, marker, 0, 5, 5, 1)
    rows = [Record(at, 5, b"k", b"%d" % at) for at in range(9)]
    return [
        bytes(encode_batch(rows[:3], base=0)),
        bytes(control),
        bytes(encode_batch(rows[4:6], base=4, codec=compression.LZ4)),
        bytes(encode_batch(rows[6:], base=6)),
    ]


def sent(data: bytes, start: int = 0) -> tuple[list[bytes | None], int]:
    """What a broker takes of it, and the position behind that."""
    memory = mmap.mmap(-1, 1 << 12)
    memory[: len(data)] = data
    buffer, partition = (
        ReceiveBuffer(memory),
        Partition("orders", 0, "primary.orders", position=start),
    )
    pen = BatchStamper(transactional=False)
    pen.take(1, 0)
    buffers = ReceiveBuffers(size=1, count=0)
    preparer = BatchPreparer(pen, buffers, "two", merged_bytes=1 << 16, stop_reading=lambda _: None)
    buffer.users = scan(partition, buffer, 0, len(data), ()) + 1
    found: list[bytes | None] = []
    while (batch := preparer.next(partition)) is not None:
        view = batch.view
        assert view is not None
        if not checksum_holds(view, 0, address_of(view), batch.size):
            break
        found += [row.value for row in decode_batch(view)]
        partition.acknowledge(batch, 0)
    return found, partition.acknowledged_offset


def turned(batches: list[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
    for number, batch in enumerate(batches):
        for at in range(len(batch)):
            for bit in range(8):
                bent = bytearray(batch)
                bent[at] ^= 1 << bit
                yield number, at, bit, b"".join([*batches[:number], bent, *batches[number + 1 :]])


@pytest.mark.parametrize("start", [0, 1, 3])
def test_no_turned_bit_leaves_a_record_out(start: int) -> None:
    batches = log()
    wanted = [b"%d" % at for at in (0, 1, 2, 4, 5, 6, 7, 8) if at >= start]
    assert sent(b"".join(batches), start) == (wanted, 9)
    for number, at, bit, data in turned(batches):
        if at in _UNTOLD:
            continue
        found, position = sent(data, start)
        where = f"batch {number}, byte {at}, bit {bit}: {found} up to {position}"
        assert found == wanted[: len(found)], where
        left = [int(value) for value in wanted[len(found) :]]
        assert position <= min(left, default=9), where


def test_a_length_that_makes_no_sense_is_no_end_of_the_walk() -> None:
    batches = log()
    for size in (-(2**31), -LENGTH_OVERHEAD, -1, 0, 4, 48):
        bent = bytearray(batches[2])
        bent[8:12] = size.to_bytes(4, "big", signed=True)
        found, position = sent(b"".join([*batches[:2], bent, batches[3]]))
        assert (found, position) == ([b"0", b"1", b"2"], 4)


def ending(batches: list[bytes], *, merged: bool) -> tuple[list[bytes | None], str]:
    """What is sent before the track ends, and why it does."""
    data = b"".join(batches)
    memory = mmap.mmap(-1, 1 << 16)
    memory[: len(data)] = data
    buffer, partition = ReceiveBuffer(memory), Partition("orders", 0, "primary.orders")
    pen = BatchStamper(transactional=False)
    pen.take(1, 0)
    left: list[Partition] = []
    preparer = BatchPreparer(
        pen, ReceiveBuffers(size=1, count=0), "two", merged_bytes=1 << 16, stop_reading=left.append
    )
    buffer.users = scan(partition, buffer, 0, len(data), ()) + 1
    found: list[bytes | None] = []
    while (batch := preparer.next(partition)) is not None:
        assert bool(batch.repack_reason) == merged
        assert batch.view is not None
        found += [row.value for row in decode_batch(batch.view)]
        partition.acknowledge(batch, 0)
    assert left == [partition]
    assert partition.drains_for is not None
    # Nothing is owed: neither bytes that wait nor a buffer that is in use.
    assert partition.queued_bytes == 0
    assert buffer.users == 1
    return found, partition.drains_for.reason


@pytest.mark.parametrize("sound", [0, 1, 5])
@pytest.mark.parametrize("how", ["checksum", "packed", "length"])
def test_small_batches_before_a_damaged_one_are_merged_and_the_partition_waits_there(
    sound: int, how: str
) -> None:
    """Any kind of damage, in Python and in machine code."""
    batches = [
        bytes(encode_batch([Record(at, 5, b"k", b"%d" % at)], base=at, codec=compression.LZ4))
        for at in range(9)
    ]
    if how == "checksum":
        bent = bytearray(batches[sound])
        bent[-3] ^= 4
    elif how == "packed":
        bent = frame_batch(sound, compression.LZ4, b"no frame at all", 0, 5, 5, 1)
    else:
        bent = frame_batch(sound, compression.NONE, b"\x09\x00\x00\x00\x01", 0, 5, 5, 1)
    batches[sound] = bytes(bent)
    found, why = ending(batches, merged=True)
    assert found == [b"%d" % at for at in range(sound)]
    assert f"offset {sound}" in why
    assert "damaged" in why
