"""Converts messages of formats 0 and 1 (before Kafka 0.11) to records of format 2.

    0 offset i64 | 8 size i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8
    18 timestamp i64, in format 1 only | key and value, each behind an i32 length, -1 for none

Compressed messages are inside the value of a wrapper. In format 1 their offsets are relative, and
the last one corresponds to the wrapper's own; in format 0 they are absolute. Format 0 has no
timestamp; as Kafka does, -1 is written then.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import lz4.block

from spark_runner.engine.batches.record_bytes import RecordBytes
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.varint import signed

_FRONT = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_FROM = 16
_APPEND_TIME = 0x08
_NO_TIMESTAMP = -1
_NO_HEADERS = b"\x00"
_NO_ATTRIBUTES = b"\x00"

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HAS_SIZE, _LZ4_BLOCK_SUMS = 0x08, 0x10
_LZ4_RAW_BLOCK = 0x80000000
_LZ4_BLOCK = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


class Message(NamedTuple):
    """One message of a log or of a wrapper."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def codec_of(data: memoryview) -> int:
    """The codec of the wrapper at the beginning of these bytes."""
    attributes: int = _FRONT.unpack_from(data)[4]
    return attributes & 0x07


def is_intact(data: memoryview) -> bool:
    """Whether these bytes are one intact message of an old format."""
    _, _, crc, magic, _ = _FRONT.unpack_from(data)
    return magic in (0, 1) and zlib.crc32(data[_CRC_FROM:]) == crc


def pieces(data: memoryview) -> list[RecordBytes]:
    """The records of one message, or of all the messages in one wrapper."""
    outer = next(_messages(data))
    if not outer.attributes & 0x07:
        return [_piece(outer.offset, outer.timestamp, outer)]
    inner = list(_messages(_inflated(outer)))
    shift = outer.offset - inner[-1].offset if outer.magic == 1 else 0
    appended = outer.attributes & _APPEND_TIME
    return [
        _piece(message.offset + shift, outer.timestamp if appended else message.timestamp, message)
        for message in inner
    ]


def _messages(data: memoryview) -> Iterator[Message]:
    at = 0
    while at < len(data):
        offset, size, crc, magic, attributes = _FRONT.unpack_from(data, at)
        stop = at + 12 + size
        if stop > len(data) or magic not in (0, 1):
            raise ValueError("a message is cut off")
        if zlib.crc32(data[at + _CRC_FROM : stop]) != crc:
            raise ValueError("the checksum of a message is wrong")
        at += _FRONT.size
        timestamp = _NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = _TIMESTAMP.unpack_from(data, at)
            at += _TIMESTAMP.size
        key, at = _sized(data, at)
        value, at = _sized(data, at)
        if at != stop:
            raise ValueError("key and value do not fill a message")
        yield Message(offset, magic, attributes, timestamp, key, value)


def _sized(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    return (None, at) if size < 0 else (bytes(data[at : at + size]), at + size)


def _inflated(wrapper: Message) -> memoryview:
    codec = wrapper.attributes & 0x07
    value = wrapper.value or b""
    if codec == compression.LZ4 and wrapper.magic == 0:
        return memoryview(_lz4_of_format_0(value))
    return memoryview(compression.decompress(codec, memoryview(value)))


def _lz4_of_format_0(data: bytes) -> bytes:
    """KAFKA-3160: these frames have a wrong header checksum, which libraries reject."""
    if data[:4] != _LZ4_MAGIC:
        raise ValueError("not an LZ4 frame")
    flags, most = data[4], _LZ4_BLOCK.get(data[5] >> 4 & 7)
    if most is None:
        raise ValueError("an LZ4 frame of unknown blocks")
    at = 7 + (8 if flags & _LZ4_HAS_SIZE else 0)
    out = []
    while size := int.from_bytes(data[at : at + 4], "little"):
        at += 4
        length = size & ~_LZ4_RAW_BLOCK
        block = data[at : at + length]
        try:
            raw = size & _LZ4_RAW_BLOCK
            out.append(block if raw else lz4.block.decompress(block, uncompressed_size=most))
        except lz4.block.LZ4BlockError as error:
            raise compression.DecompressionError(f"lz4 data cannot be read ({error})") from None
        at += length + (4 if flags & _LZ4_BLOCK_SUMS else 0)
    return b"".join(out)


def _piece(offset: int, timestamp: int, message: Message) -> RecordBytes:
    rest = b"".join((_record_field(message.key), _record_field(message.value), _NO_HEADERS))
    return RecordBytes(offset, timestamp, _NO_ATTRIBUTES, rest)


def _record_field(data: bytes | None) -> bytes:
    return signed(-1) if data is None else signed(len(data)) + data
