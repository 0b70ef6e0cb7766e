"""The four compression codecs of record batches, compatible with Kafka's Java clients."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Final

import lz4.frame
import snappy
import zstandard

from spark_runner.kafka_protocol.varint import read_unsigned

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# xerial's framing of snappy, written by Java's SnappyOutputStream.
_XERIAL: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_MAGIC: Final = _XERIAL[:8]
_XERIAL_BLOCK: Final = 32 * 1024
_GZIP_WINDOW: Final = 31  # 15 bits of window, and a gzip header

# Below 0 is faster: 20 to 60 % less time than at 0, for 2 to 5 % more bytes.
_LZ4_LEVEL, _LZ4_QUICK_LEVEL = 0, -4
# The same for LZ4's own functions, which have no levels.
ACCELERATION: Final = 1 - _LZ4_QUICK_LEVEL

# The quick level is close to what small batches are compressed with, and takes half the time.
_ZSTD_LEVEL, _ZSTD_QUICK_LEVEL = 3, 1
# Creating a context takes longer than decompressing a small batch. A context is for one thread.
_contexts = threading.local()

# Larger than any batch that a broker accepts. Protects the machine from false lengths and from
# batches that expand thousandfold.
MAX_DECOMPRESSED_BYTES: Final = 1 << 30
# The maximum expansion of each format: 255 for each byte of a match length (LZ4); a block of 128 KB
# that repeats one byte in four bytes (zstd, RFC 8878 section 3.1.1.2).
_LZ4_MOST_TIMES, _ZSTD_MOST_TIMES = 255, 1 << 15
# Check the size after each piece that may expand to this part of the limit.
_ZSTD_PIECES: Final = 8
_LZ4_FLAGS, _LZ4_SIZED, _LZ4_SIZE_AT, _LZ4_SIZE_END = 4, 0x08, 6, 14


class DecompressionError(ValueError):
    """The data does not match its codec, or expands to more than a batch may hold."""


def decompress(codec: int, data: memoryview, most: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The decompressed records section of a batch. Raises Unreadable above `most` bytes."""
    try:
        return _READERS[codec](data, most)
    except (zlib.error, RuntimeError, zstandard.ZstdError, snappy.UncompressError) as error:
        raise DecompressionError(f"{NAMES[codec]} data cannot be read ({error})") from None


def compress(codec: int, data: bytes | bytearray) -> bytes | bytearray:
    return _WRITERS[codec](data)


def compress_quickly(codec: int, data: bytes | bytearray) -> bytes | bytearray:
    """For batches merged from small ones, each of which was compressed alone.

    Merging gains more than the quick level loses.
    """
    if codec == LZ4:
        return _compress_lz4(data, _LZ4_QUICK_LEVEL)
    return _compress_zstd(data, _ZSTD_QUICK_LEVEL) if codec == ZSTD else _WRITERS[codec](data)


def _too_large(codec: int, most: int) -> DecompressionError:
    return DecompressionError(f"{NAMES[codec]} data holds more than {most:,} bytes")


def _decompress_none(data: memoryview, most: int) -> bytes:
    return bytes(data)


def _decompress_gzip(data: memoryview, most: int) -> bytes:
    out = b""
    rest: bytes | memoryview = data
    # A gzip stream may have several members.
    while rest:
        member = zlib.decompressobj(_GZIP_WINDOW)
        # One byte more than allowed. flush() would decompress all of the rest.
        out += member.decompress(rest, most - len(out) + 1)
        if len(out) > most:
            raise _too_large(GZIP, most)
        if not member.eof:
            raise DecompressionError("gzip data ends too early")
        rest = member.unused_data
    return out


def _compress_gzip(data: bytes | bytearray) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _decompress_snappy(data: memoryview, most: int) -> bytes:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(raw, 0, most)
    out = []
    at, held = len(_XERIAL), 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "big")
        block = _decompress_snappy_block(raw[at + 4 : at + 4 + size], held, most)
        out.append(block)
        held += len(block)
        at += 4 + size
    return b"".join(out)


def _decompress_snappy_block(block: bytes, held: int, most: int) -> bytes:
    # The size comes first, and memory is allocated before the data is read.
    try:
        size, _ = read_unsigned(block, 0)
    except IndexError:
        raise DecompressionError("snappy data ends too early") from None
    if held + size > most:
        raise _too_large(SNAPPY, most)
    return bytes(snappy.uncompress(block))


def _compress_snappy(data: bytes | bytearray) -> bytes:
    out = bytearray(_XERIAL)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress(bytes(data[at : at + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _decompress_lz4(data: memoryview, most: int) -> bytes:
    # The size in the frame is allocated before the data is read.
    if len(data) >= _LZ4_SIZE_END and data[_LZ4_FLAGS] & _LZ4_SIZED:
        size = int.from_bytes(data[_LZ4_SIZE_AT:_LZ4_SIZE_END], "little")
        if size > most:
            raise _too_large(LZ4, most)
    if len(data) * _LZ4_MOST_TIMES > most:
        return _decompress_lz4_bounded(data, most)
    inflated: bytes = lz4.frame.decompress(data)
    return inflated


def _decompress_lz4_bounded(data: memoryview, most: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    out: bytes = frame.decompress(data, most + 1)
    if len(out) > most:
        raise _too_large(LZ4, most)
    if not frame.eof:
        raise DecompressionError("lz4 data ends too early")
    return out


def _compress_lz4(data: bytes | bytearray, level: int = _LZ4_LEVEL) -> bytes:
    # Kafka's Java reader supports only independent blocks, without a content size.
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _decompress_zstd(data: memoryview, most: int) -> bytes:
    unpacker = getattr(_contexts, "unpacker", None)
    if unpacker is None:
        unpacker = _contexts.unpacker = zstandard.ZstdDecompressor()
    out = []
    held, piece = 0, max(1, most // _ZSTD_MOST_TIMES // _ZSTD_PIECES)
    at, size = 0, len(data)
    # Frames of streaming writers have no size, and there may be several.
    while at < size:
        frame = unpacker.decompressobj()
        while not frame.eof:
            if at >= size:
                raise DecompressionError("zstd data ends too early")
            part = data[at : at + piece]
            out.append(frame.decompress(part))
            held += len(out[-1])
            if held > most:
                raise _too_large(ZSTD, most)
            at += len(part) - len(frame.unused_data)
    return b"".join(out)


def _compress_zstd(data: bytes | bytearray, level: int = _ZSTD_LEVEL) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def _compress_none(data: bytes | bytearray) -> bytes | bytearray:
    return data


_READERS: tuple[Callable[[memoryview, int], bytes], ...] = (
    _decompress_none,
    _decompress_gzip,
    _decompress_snappy,
    _decompress_lz4,
    _decompress_zstd,
)
_WRITERS: tuple[Callable[[bytes | bytearray], bytes | bytearray], ...] = (
    _compress_none,
    _compress_gzip,
    _compress_snappy,
    _compress_lz4,
    _compress_zstd,
)
