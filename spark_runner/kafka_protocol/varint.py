"""Kafka's variable-length integers: unsigned ones in flexible messages, zigzag ones in records."""

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
    """As a Java `long` has it: a delta of two times that are far apart wraps, and so does its sum.

    No varlong of Kafka's has more than 64 bits: what is beyond them is lost without a word.
    """
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def read_unsigned(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """The value at a place, and the place after it."""
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
    """Where a structure goes on behind its tagged fields, none of which is of interest."""
    count, at = read_unsigned(frame, at)
    for _ in range(count):
        _, at = read_unsigned(frame, at)
        size, at = read_unsigned(frame, at)
        at += size
    return at
