"""The four codecs of record batches, as Kafka's Java clients write and read them."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Final

import lz4.frame
import snappy
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# xerial's framing of snappy, which is what Java's SnappyOutputStream writes.
_XERIAL: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_MAGIC: Final = _XERIAL[:8]
_XERIAL_BLOCK: Final = 32 * 1024
_GZIP_WINDOW: Final = 31  # 15 bits of window, and a gzip header

# Below 0 is faster: 20 to 60 % less time than at 0, for 2 to 5 % more bytes.
_LZ4_LEVEL, _LZ4_QUICK_LEVEL = 0, -4
# The same for LZ4's own functions, which know no levels.
ACCELERATION: Final = 1 - _LZ4_QUICK_LEVEL

# Quick is nearer to what small batches are packed in, and takes half the time.
_ZSTD_LEVEL, _ZSTD_QUICK_LEVEL = 3, 1
# To make a context takes longer than to unpack a small batch with it; it is for one thread alone.
_contexts = threading.local()

# Larger than any batch that a broker takes: a damaged length must not eat the machine.
MOST_INFLATED: Final = 1 << 30


class Unreadable(ValueError):
    """The bytes are not what their codec says."""


def decompress(codec: int, data: memoryview) -> bytes:
    """The records section of a batch, inflated."""
    try:
        return _READERS[codec](data)
    except (zlib.error, RuntimeError, zstandard.ZstdError, snappy.UncompressError) as error:
        raise Unreadable(f"{NAMES[codec]} data cannot be read ({error})") from None


def compress(codec: int, data: bytes | bytearray) -> bytes | bytearray:
    return _WRITERS[codec](data)


def compress_quickly(codec: int, data: bytes | bytearray) -> bytes | bytearray:
    """For batches put together from small ones, each of which was packed by itself: what they gain
    by being packed together is more than what is lost here."""
    if codec == LZ4:
        return _lz4(data, _LZ4_QUICK_LEVEL)
    return _zstd(data, _ZSTD_QUICK_LEVEL) if codec == ZSTD else _WRITERS[codec](data)


def _gunzip(data: memoryview) -> bytes:
    out = b""
    rest: bytes | memoryview = data
    # A gzip stream may have several members.
    while rest:
        member = zlib.decompressobj(_GZIP_WINDOW)
        out += member.decompress(rest, MOST_INFLATED - len(out)) + member.flush()
        if not member.eof:
            raise Unreadable("gzip data ends too early or is too large")
        rest = member.unused_data
    return out


def _gzip(data: bytes | bytearray) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _unsnap(data: memoryview) -> bytes:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        return bytes(snappy.uncompress(raw))
    out = []
    at = len(_XERIAL)
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "big")
        out.append(snappy.uncompress(raw[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(out)


def _snap(data: bytes | bytearray) -> bytes:
    out = bytearray(_XERIAL)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress(bytes(data[at : at + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _unlz4(data: memoryview) -> bytes:
    inflated: bytes = lz4.frame.decompress(data)
    return inflated


def _lz4(data: bytes | bytearray, level: int = _LZ4_LEVEL) -> bytes:
    # Kafka's Java reader knows independent blocks only; it wants no content size either.
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _unzstd(data: memoryview) -> bytes:
    unpacker = getattr(_contexts, "unpacker", None)
    if unpacker is None:
        unpacker = _contexts.unpacker = zstandard.ZstdDecompressor()
    out = b""
    rest: bytes | memoryview = data
    # The frames of streaming writers do not say how large they are; and there may be several.
    while rest:
        frame = unpacker.decompressobj()
        out += frame.decompress(rest)
        if not frame.eof:
            raise Unreadable("zstd data ends too early")
        rest = frame.unused_data
    return out


def _zstd(data: bytes | bytearray, level: int = _ZSTD_LEVEL) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def _same(data: bytes | bytearray) -> bytes | bytearray:
    return data


_READERS: tuple[Callable[[memoryview], bytes], ...] = (bytes, _gunzip, _unsnap, _unlz4, _unzstd)
_WRITERS: tuple[Callable[[bytes | bytearray], bytes | bytearray], ...] = (
    _same,
    _gzip,
    _snap,
    _lz4,
    _zstd,
)
