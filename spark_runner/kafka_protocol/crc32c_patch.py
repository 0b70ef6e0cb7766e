"""Update the checksum of a message whose first bytes change, without reading the rest.

A CRC is linear over GF(2). The checksums of two messages of equal length differ by the bare CRC of
their difference. Here that is the difference of 40 bytes followed by `n` zero bytes.

- The last n mod 1024 zero bytes are read.
- Appending 1024 bytes or more is a multiplication by a matrix that depends only on their number. It
  is applied digit by digit (base 64), with four table look-ups each; one digit up to 64 KB.

This takes half a microsecond; two passes over a batch of 40 KB take five. The tables are few,
because copying between two batches evicts the processor's caches. A flipped bit remains visible to
the target's broker.
"""

from __future__ import annotations

from array import array
from typing import Final

import google_crc32c

_POLYNOMIAL: Final = 0x82F63B78
_READ_BITS: Final = 10
_READ: Final = (1 << _READ_BITS) - 1
_ZEROS: Final = bytes(_READ)
_DIGIT_BITS: Final = 6
_DIGIT: Final = (1 << _DIGIT_BITS) - 1
_BYTES: Final = range(0, 32, 8)
# The library's checksum of an empty message is 0: it inverts all bits before and after.
_TURNED: Final = 0xFFFFFFFF

_value: Final = google_crc32c.value
_extend: Final = google_crc32c.extend


def patched(crc: int, old: bytes, new: bytes, behind: int) -> int:
    """The checksum after `old` at the start became `new`, with `behind` bytes after it."""
    difference: int = _value(old) ^ _value(new)
    if read := behind & _READ:
        difference = _extend(difference ^ _TURNED, _ZEROS[:read]) ^ _TURNED
    behind >>= _READ_BITS
    position = 0
    while behind:
        digit = behind & _DIGIT
        if digit:
            table = _TABLES.get(position | digit) or _table(position | digit)
            difference = (
                table[difference & 255]
                ^ table[256 + (difference >> 8 & 255)]
                ^ table[512 + (difference >> 16 & 255)]
                ^ table[768 + (difference >> 24)]
            )
        behind >>= _DIGIT_BITS
        position += 1 << _DIGIT_BITS
    return crc ^ difference


def make_tables() -> None:
    """Make the tables for up to 1 MB ahead of time, so that forked workers share them."""
    for key in range((1 << _DIGIT_BITS) + 16):
        if key & _DIGIT:
            _table(key)


# (position of the digit << 6 | digit) -> the images of 256 values of each of the four bytes. Digits
# count units of 1024 bytes.
_TABLES: dict[int, array[int]] = {}


def _table(key: int) -> array[int]:
    """Made when first needed. Batches of one size need few tables."""
    digit = key & _DIGIT
    one = _UNITS.get(key >> _DIGIT_BITS) or _unit(key >> _DIGIT_BITS)
    if digit == 1:
        table = one
    else:
        half = _TABLES.get(key - digit | digit // 2) or _table(key - digit | digit // 2)
        table = _after(half, half)
        if digit % 2:
            table = _after(one, table)
    _TABLES[key] = table
    return table


# position of the digit -> the table of digit 1 there
_UNITS: dict[int, array[int]] = {}


def _unit(position: int) -> array[int]:
    if position == 0:
        table = _expand([_one_zero_byte(1 << bit) for bit in range(32)])
        for _ in range(_READ_BITS):
            table = _after(table, table)
    else:
        below = _UNITS.get(position - 1) or _unit(position - 1)
        table = below
        for _ in range(_DIGIT_BITS):
            table = _after(table, table)
    _UNITS[position] = table
    return table


def _one_zero_byte(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


def _after(second: array[int], first: array[int]) -> array[int]:
    """The table that applies `first` and then `second`."""
    images = [first[bit // 8 * 256 + (1 << bit % 8)] for bit in range(32)]
    return _expand(
        [
            second[image & 255]
            ^ second[256 + (image >> 8 & 255)]
            ^ second[512 + (image >> 16 & 255)]
            ^ second[768 + (image >> 24)]
            for image in images
        ]
    )


def _expand(columns: list[int]) -> array[int]:
    """From the images of the 32 bits to those of all values of each byte."""
    table = array("I")
    for first in _BYTES:
        images = [0]
        for column in columns[first : first + 8]:
            images += [image ^ column for image in images]
        table.extend(images)
    return table
