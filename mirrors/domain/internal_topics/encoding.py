"""Encodings of the internal topics: Kafka's types, Java's JSON, murmur2."""

from __future__ import annotations

import json
import struct
from typing import Any


class MalformedRecord(ValueError):
    """A record that is not in the topic's format."""


class Reader:
    """Reads Kafka's protocol types, big-endian; extra bytes at the end are ignored, as in Java."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise MalformedRecord("the record's key or value is null")
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return self._number(">h", 2)

    def int32(self) -> int:
        return self._number(">i", 4)

    def int64(self) -> int:
        return self._number(">q", 8)

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise MalformedRecord(f"a string has the length {length}")
        return self._take(length).decode("utf-8", errors="replace")

    def _number(self, layout: str, size: int) -> int:
        number: int = struct.unpack(layout, self._take(size))[0]
        return number

    def _take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise MalformedRecord(f"the record ends {size - len(piece)} bytes too early")
        self._at += size
        return piece


def string(text: str) -> bytes:
    """Return a string prefixed with its length in bytes."""
    raw = text.encode()
    if len(raw) > 32767:
        raise MalformedRecord(f"a string of {len(raw)} bytes is longer than the limit of 32767")
    return struct.pack(">h", len(raw)) + raw


def java_json(value: object) -> bytes:
    """Return JSON byte for byte as Connect writes it: no blanks, members in the given order."""
    return _java_text(value).encode()


def _java_text(value: object) -> str:
    if isinstance(value, str):
        return '"' + "".join(map(_java_character, value)) + '"'
    if isinstance(value, dict):
        members = (f"{_java_text(key)}:{_java_text(inner)}" for key, inner in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_java_text, value)) + "]"
    return json.dumps(value)


def _java_character(letter: str) -> str:
    code = ord(letter)
    if code > 0xFFFF:
        high, low = 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)
        return f"\\u{high:04X}\\u{low:04X}"
    escape = json.dumps(letter, ensure_ascii=False)[1:-1]
    return f"\\u{code:04X}" if escape.startswith("\\u") else escape


def read_json(data: bytes | None) -> Any:
    if data is None:
        raise MalformedRecord("the record's key or value is null")
    try:
        return json.loads(data)
    except ValueError:
        raise MalformedRecord("the record is not JSON") from None


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key, signed as in Java."""
    multiplier, length = 0x5BD1E995, len(data)
    hashed = (0x9747B28C ^ length) & 0xFFFFFFFF
    for at in range(0, length - length % 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        hashed = hashed * multiplier & 0xFFFFFFFF ^ word
    if rest := data[length - length % 4 :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * multiplier & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * multiplier & 0xFFFFFFFF
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed & 0x80000000 else hashed
