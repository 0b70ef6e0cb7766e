"""Kafka's variable-length integers: unsigned in flexible messages, zigzag in records."""

from __future__ import annotations


def unsigned(value: int) -> bytes:
    """Lengths in flexible messages (KIP-482)."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Deltas and lengths inside records: zigzag, so that -1 takes one byte."""
    return unsigned(value << 1 if value >= 0 else ((-value) << 1) - 1)


def wrapped(value: int) -> int:
    """The value as a Java `long`: the difference of two distant timestamps wraps, and so does a
    sum.

    Kafka's varlong has at most 64 bits. Higher bits are lost silently.
    """
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def read_unsigned(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """The value at an offset, and the offset after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7


def read_signed(data: memoryview | bytes, at: int) -> tuple[int, int]:
    value, at = read_unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def skip_tags(frame: memoryview, at: int) -> int:
    """The offset after the tagged fields of a structure. None of them is used."""
    count, at = read_unsigned(frame, at)
    for _ in range(count):
        _, at = read_unsigned(frame, at)
        size, at = read_unsigned(frame, at)
        at += size
    return at
