"""The content of a record as bytes: what both ways of reading compare, and both digests are of.

The body is key, value and headers as in Kafka's record format v2, with their lengths. It has no
offset and no delta, so it is the same on both clusters however the records are batched.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from mirrors.domain.comparison.alignment import Row
from mirrors.domain.failback.orphans import MARK_HEADER

# Bytes of the digest of one part, and of a record.
_PART, _RECORD = 12, 16
NULL: Final = b"\xff" * _PART
"""The digest of a key or value that is not there; an empty one has another."""

MARK: Final = MARK_HEADER.encode()
_TIME: Final = struct.Struct(">Q")
_WRAP: Final = (1 << 64) - 1
_ABSENT: Final = b"\x01"  # the length -1

Header = tuple[bytes, bytes | None]


class RecordContent(NamedTuple):
    """A record as it was read: its body, and its timestamp in ms since the epoch."""

    offset: int
    body: bytes
    timestamp: int


def body_of(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bytes:
    """The body of a record. The mark of a record that was brought over after a failover is this
    program's, not content."""
    theirs = [header for header in headers if header[0] != MARK]
    found = [_sized(key), _sized(value), _length(len(theirs))]
    for name, data in theirs:
        found += (_sized(name), _sized(data))
    return b"".join(found)


def content_of(record: RecordContent, *, with_timestamp: bool) -> bytes:
    """The bytes that the digest of a chunk takes in."""
    return record.body + time_bytes(record.timestamp) if with_timestamp else record.body


def time_bytes(timestamp: int) -> bytes:
    return _TIME.pack(timestamp & _WRAP)


def row_of(record: RecordContent, *, with_timestamp: bool) -> Row:
    """The record as it is aligned: one digest, and the digests of its parts.

    Raises IndexError for a body that is cut off.
    """
    body = record.body
    key, at = _read(body, 0)
    value, at = _read(body, at)
    found: tuple[bytes, ...] = (_hash(key), _hash(value), _hash(body[at:]))
    parts: tuple[object, ...] = found
    if with_timestamp:
        found = (*found, time_bytes(record.timestamp))
        parts = (*parts, record.timestamp)
    digest = hashlib.blake2b(b"".join(found), digest_size=_RECORD).digest()
    return Row(record.offset, digest, parts)


def key_and_value(body: bytes) -> tuple[bytes | None, bytes | None]:
    """Raises IndexError for a body that is cut off."""
    key, at = _read(body, 0)
    return key, _read(body, at)[0]


def without_mark(body: bytes) -> bytes:
    """The same body without the header that marks a record brought over after a failover."""
    key, at = _read(body, 0)
    value, at = _read(body, at)
    count, at = _read_length(body, at)
    headers: list[Header] = []
    for _ in range(count):
        name, at = _read(body, at)
        data, at = _read(body, at)
        headers.append((name or b"", data))
    return body_of(key, value, headers)


def _hash(data: bytes | None) -> bytes:
    return NULL if data is None else hashlib.blake2b(data, digest_size=_PART).digest()


def _sized(data: bytes | None) -> bytes:
    return _ABSENT if data is None else _length(len(data)) + data


def _length(value: int) -> bytes:
    """Kafka's zigzag varint of a length."""
    value <<= 1
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_length(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _read(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_length(body, at)
    if size < 0:
        return None, at
    if at + size > len(body):
        raise IndexError("a record is cut off")
    return body[at : at + size], at + size
