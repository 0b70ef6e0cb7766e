"""The parts of one record after its deltas: key, value and headers.

A part that no rule changes is copied as bytes. A header name that is not UTF-8 stays as it is then.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrors.domain.transforms.headers import AddedHeader
from spark_runner.kafka_protocol.varint import read_signed, signed

Header = tuple[str, bytes | None]
_NULL = signed(-1)


class RecordFields:
    """The three parts of `rest`, without decoding their contents."""

    __slots__ = ("_key_at", "_key_stop", "_rest", "_value_at", "_value_stop")

    def __init__(self, rest: bytes) -> None:
        """Raises IndexError or ValueError for bytes that are no record."""
        size, at = read_signed(rest, 0)
        self._rest = rest
        # -1: null.
        self._key_at = at if size >= 0 else -1
        self._key_stop = at = at + size if size >= 0 else at
        size, at = read_signed(rest, at)
        self._value_at = at if size >= 0 else -1
        self._value_stop = at + size if size >= 0 else at
        if self._value_stop >= len(rest):
            raise ValueError("a record is shorter than what it holds")

    @property
    def key(self) -> bytes | None:
        return None if self._key_at < 0 else self._rest[self._key_at : self._key_stop]

    @property
    def value(self) -> bytes | None:
        return None if self._value_at < 0 else self._rest[self._value_at : self._value_stop]

    @property
    def headers(self) -> list[Header]:
        """Names that are not UTF-8 have replacement characters."""
        rest = self._rest
        count, at = read_signed(rest, self._value_stop)
        found: list[Header] = []
        for _ in range(count):
            size, at = read_signed(rest, at)
            name = rest[at : at + size].decode("utf-8", "replace")
            size, at = read_signed(rest, at + size)
            value = None
            if size >= 0:
                value = rest[at : at + size]
                at += size
            found.append((name, value))
        if at > len(rest):
            raise ValueError("a header is cut off")
        return found

    def with_added(self, headers: Sequence[AddedHeader]) -> bytes:
        """The record with further headers behind its own, which stay as bytes."""
        rest = self._rest
        count, at = read_signed(rest, self._value_stop)
        added = b"".join(_header(name, value) for name, value in headers)
        return rest[: self._value_stop] + signed(count + len(headers)) + rest[at:] + added

    def replaced(self, key: bytes | None, value: bytes | None, headers: bytes | None) -> bytes:
        """The record with other parts, each with its length; None keeps a part as it is."""
        rest = self._rest
        if value is None:
            value = rest[self._key_stop : self._value_stop]
        if key is None:
            key = rest[: self._key_stop]
        return key + value + (rest[self._value_stop :] if headers is None else headers)


def part_of(data: bytes | None) -> bytes:
    """A key or value with its length."""
    return _NULL if data is None else signed(len(data)) + data


def headers_part_of(headers: list[Header]) -> bytes:
    out = [signed(len(headers))]
    out += [_header(name, value) for name, value in headers]
    return b"".join(out)


def _header(name: str, value: bytes | None) -> bytes:
    text = name.encode("utf-8", "replace")
    return signed(len(text)) + text + part_of(value)
