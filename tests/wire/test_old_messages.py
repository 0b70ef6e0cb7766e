"""Messages of formats 0 and 1 become equal records, or are rejected."""

from __future__ import annotations

import random
import zlib

import lz4.frame
import pytest

from spark_runner.engine.batches import message_v0_v1, repack
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import decode_batch


def message(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, codec: int = 0
) -> bytes:
    body = bytes((magic, codec)) + (timestamp.to_bytes(8, "big", signed=True) if magic else b"")
    for data in (key, value):
        body += (-1 if data is None else len(data)).to_bytes(4, "big", signed=True) + (data or b"")
    framed = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(framed).to_bytes(4, "big") + framed


def lz4_of_format_0(data: bytes) -> bytes:
    """A frame with the header checksum that Kafka 0.8 and 0.9 wrote: over the magic number too."""
    packed = bytearray(
        lz4.frame.compress(data, block_linked=False, store_size=False, content_checksum=False)
    )
    packed[6] ^= 0x5A
    return bytes(packed)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_messages_become_the_records_they_were(magic: int, codec: int) -> None:
    chance = random.Random(codec)
    plain = [
        (b"k%d" % at if at % 3 else None, chance.randbytes(at * 30) if at % 4 else None)
        for at in range(20)
    ]
    timestamps = [1000 + at if magic else -1 for at in range(20)]
    if codec == 0:
        data = [message(magic, 500 + at, timestamps[at], *plain[at]) for at in range(20)]
    else:
        inner = b"".join(
            message(magic, (0 if magic else 500) + at, timestamps[at], *plain[at])
            for at in range(20)
        )
        packed = (
            lz4_of_format_0(inner)
            if (magic, codec) == (0, 3)
            else bytes(compression.compress(codec, inner))
        )
        data = [message(magic, 519, 1019, None, packed, codec)]
    pieces = [piece for row in data for piece in message_v0_v1.pieces(memoryview(row))]
    assert [piece.offset for piece in pieces] == list(range(500, 520))
    assert [piece.timestamp for piece in pieces] == timestamps
    built = repack.assemble(pieces, compression.LZ4)
    assert [(row.key, row.value) for row in decode_batch(memoryview(built))] == plain


def test_append_time_of_an_old_wrapper_is_that_of_its_messages() -> None:
    inner = b"".join(message(1, at, 5, b"k", b"v") for at in range(3))
    packed = bytes(compression.compress(compression.GZIP, inner))
    wrapper = message(1, 12, 999, None, packed, compression.GZIP | 0x08)
    pieces = message_v0_v1.pieces(memoryview(wrapper))
    assert [(piece.offset, piece.timestamp) for piece in pieces] == [
        (10, 999),
        (11, 999),
        (12, 999),
    ]


def test_a_damaged_old_message_is_refused() -> None:
    data = bytearray(message(1, 0, 1, b"k", b"v"))
    data[-1] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        message_v0_v1.pieces(memoryview(data))


def test_an_old_message_whose_parts_do_not_fill_it_is_refused() -> None:
    """Its checksum is that of what its writer wrote: nothing but the lengths tells."""
    for key, value in ((b"k", b"v" * 9), (b"", b"v" * 200)):
        data = message(1, 0, 1, key, value)
        body = bytearray(data[16:])
        body[14 + len(key) : 18 + len(key)] = (99).to_bytes(4, "big")
        bent = data[:12] + zlib.crc32(body).to_bytes(4, "big") + body
        with pytest.raises(ValueError, match="fill"):
            message_v0_v1.pieces(memoryview(bent))


def test_an_old_frame_with_blocks_of_no_size_is_damaged_like_any_other() -> None:
    packed = bytearray(lz4_of_format_0(message(0, 0, -1, b"k", b"v")))
    packed[5] = 0
    data = message(0, 0, -1, None, bytes(packed), compression.LZ4)
    with pytest.raises(ValueError, match="LZ4"):
        message_v0_v1.pieces(memoryview(data))


def test_an_old_wrapper_that_cannot_be_read_is_refused() -> None:
    inner = message(0, 0, -1, b"k", b"v" * 100)
    packed = bytearray(lz4_of_format_0(inner))
    packed[11:15] = b"\xff" * 4
    with pytest.raises(ValueError, match="lz4"):
        message_v0_v1.pieces(memoryview(message(0, 0, -1, None, bytes(packed), compression.LZ4)))
