"""The headers of fetched batches one behind the other, in an answer that is cut where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_runner.wire.batch import (
    HEADER,
    HEADER_SIZE,
    MAGIC_AT,
    MOST_HEADERS,
    Header,
    headers,
)

_LEAST: Final = MAGIC_AT + 1
# Of formats 0 and 1.
_LEAST_OLD: Final = 26
_UNPACK: Final = HEADER.unpack_from


def walk(memory: memoryview, at: int, stop: int) -> Iterator[Header]:
    """Of all batches that are there whole; the last one may have a size that cannot be."""
    while True:
        row, at = headers(memory, at, stop)
        yield from row
        if len(row) == MOST_HEADERS:
            continue
        if stop - at < _LEAST:
            return
        if memory[at + MAGIC_AT] != 2:
            odd = _of_old_format(memory, at)
        elif stop - at < HEADER_SIZE:
            return
        else:
            odd = Header._make(_UNPACK(memory, at))
        if odd.size > stop - at:
            return
        yield odd
        if odd.size < least(odd):
            return
        at += odd.size


def least(header: Header) -> int:
    """How many bytes a batch, or a message of an old format, has at the least."""
    return HEADER_SIZE if header[3] == 2 else _LEAST_OLD


def _of_old_format(memory: memoryview, at: int) -> Header:
    """A message of format 0 or 1 as a header: its place and size; `legacy.py` reads the rest."""
    offset = int.from_bytes(memory[at : at + 8], "big")
    length = int.from_bytes(memory[at + 8 : at + 12], "big")
    return Header(offset, length, -1, memory[at + MAGIC_AT], 0, 0, 0, -1, -1, -1, -1, -1, 1)
