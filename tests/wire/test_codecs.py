"""Decompression returns everything or a clear error, never more than the limit."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.varint import unsigned

PACKED = pytest.mark.parametrize("codec", range(1, 5), ids=compression.NAMES[1:])
LIMIT = 1 << 20


def zeros(size: int) -> bytes:
    return bytes(size)


@PACKED
def test_what_holds_as_much_as_is_allowed_is_read_and_one_byte_more_is_not(codec: int) -> None:
    packed = memoryview(bytes(compression.compress(codec, zeros(LIMIT))))
    assert compression.decompress(codec, packed, LIMIT) == zeros(LIMIT)
    with pytest.raises(
        compression.DecompressionError, match=f"{compression.NAMES[codec]} data holds more than"
    ):
        compression.decompress(codec, packed, LIMIT - 1)


@PACKED
def test_what_holds_a_thousand_times_what_it_weighs_does_not_take_the_memory(codec: int) -> None:
    packed = memoryview(bytes(compression.compress(codec, zeros(64 * LIMIT))))
    tracemalloc.start()
    try:
        with pytest.raises(compression.DecompressionError, match="holds more than 1,048,576 bytes"):
            compression.decompress(codec, packed, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A copy of what came, twice what is allowed while it is put together, and some pieces.
    assert peak < 2 * len(packed) + 4 * LIMIT


@PACKED
def test_what_ends_too_early_is_unreadable(codec: int) -> None:
    packed = bytes(compression.compress(codec, bytes(range(256)) * 400))
    for most in (compression.MAX_DECOMPRESSED_BYTES, 200_000):
        for size in (len(packed) - 1, len(packed) // 2, 3):
            with pytest.raises(compression.DecompressionError):
                compression.decompress(codec, memoryview(packed[:size]), most)


def _lz4_that_says(size: int) -> bytes:
    """A sound frame that says it holds so much: the checksum of its header is tried out."""
    frame = bytearray(lz4.frame.compress(b"x" * 100, store_size=True))
    frame[6:14] = size.to_bytes(8, "little")
    for check in range(256):
        frame[14] = check
        try:
            lz4.frame.get_frame_info(bytes(frame))
        except RuntimeError:
            continue
        return bytes(frame)
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize("size", [1 << 62, 1 << 36, compression.MAX_DECOMPRESSED_BYTES + 1])
def test_a_length_that_lies_is_not_believed(size: int) -> None:
    said = unsigned(min(size, (1 << 32) - 1)) + b"\x00a"
    assert len(snappy.uncompress(unsigned(1) + b"\x00a")) == 1
    for codec, data in ((compression.LZ4, _lz4_that_says(size)), (compression.SNAPPY, said)):
        with pytest.raises(
            compression.DecompressionError, match="holds more than 1,073,741,824 bytes"
        ):
            compression.decompress(codec, memoryview(data))


def test_a_length_that_is_true_is_read() -> None:
    frame = memoryview(_lz4_that_says(100))
    assert compression.decompress(compression.LZ4, frame) == b"x" * 100
    assert compression.decompress(compression.LZ4, frame, 100) == b"x" * 100


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize(
    ("codec", "pack"),
    [(compression.GZIP, gzip.compress), (compression.ZSTD, _zstd)],
    ids=["gzip", "zstd"],
)
@given(
    parts=st.lists(st.binary(max_size=300), min_size=1, max_size=5), room=st.integers(0, 1 << 21)
)
def test_frames_behind_one_another_are_one(
    codec: int, pack: Callable[[bytes], bytes], parts: list[bytes], room: int
) -> None:
    # With little room the bytes are looked at one by one.
    data, packed = b"".join(parts), b"".join(map(pack, parts))
    assert compression.decompress(codec, memoryview(packed), len(data) + room) == data
