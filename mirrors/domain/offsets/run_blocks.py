"""Decoder of run blocks: all runs, the runs around an offset, or only the first.

`runs` describes the format.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import accumulate
from operator import add

from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.offsets.runs import VERSION, Run

_GOES_ON = bytes(range(0x80, 0x100))


def read_block(data: bytes) -> Iterator[Run]:
    """Return the runs of a block, in order."""
    upstream, downstream, gaps, downstream_gaps, lengths = _columns(data)
    starts = _starts(upstream, gaps, lengths), _starts(downstream, downstream_gaps, lengths)
    return map(Run, *starts, lengths)


def first_run(data: bytes) -> Run:
    """Return the first run of a complete block, without decoding the others."""
    (_, count, upstream, downstream, *gaps, short), _ = _head(data, 7)
    if not count or len(data.translate(None, _GOES_ON)) < 4 + 3 * count:
        raise MalformedRecord("the block is truncated")
    return Run(upstream + gaps[0], downstream + gaps[1], short + 1)


def follows(data: bytes) -> int | None:
    """Return the downstream end of the run before this block's first one; None if not stored."""
    (_, count, _, downstream), behind = _head(data, 4)
    numbers = _numbers(data[behind:])
    return downstream - numbers[3 * count] if len(numbers) > 3 * count else None


class Block:
    """A block decoded once for many lookups; downstream offsets are computed on demand."""

    def __init__(self, data: bytes) -> None:
        upstream, self._downstream, gaps, self._gaps, self._lengths = _columns(data)
        self._starts = _starts(upstream, gaps, self._lengths)

    def around(self, upstream: int) -> tuple[Run | None, Run | None]:
        """Return the last run that begins at or below the offset, and the next one."""
        at = bisect.bisect_right(self._starts, upstream)
        above = self._run(at) if at < len(self._starts) else None
        return (self._run(at - 1) if at else None), above

    def _run(self, at: int) -> Run:
        before = sum(self._gaps[: at + 1]) + sum(self._lengths[:at])
        return Run(self._starts[at], self._downstream + before, self._lengths[at])


def _columns(data: bytes) -> tuple[int, int, list[int], list[int], list[int]]:
    """Return first upstream and downstream; of each run the gaps on both sides, and its length."""
    (_, count, upstream, downstream), behind = _head(data, 4)
    numbers = _numbers(data[behind:])
    if len(numbers) < 3 * count:
        raise MalformedRecord("the block is truncated")
    gaps, downstream_gaps, shorts = (numbers[column : 3 * count : 3] for column in range(3))
    return upstream, downstream, gaps, downstream_gaps, [short + 1 for short in shorts]


def _starts(first: int, gaps: list[int], lengths: list[int]) -> list[int]:
    """Return the starts: each run begins a gap after the end of the one before. It uses C loops."""
    if not gaps:
        return []
    return list(accumulate(map(add, gaps[1:], lengths), initial=first + gaps[0]))


def _head(data: bytes, count: int) -> tuple[list[int], int]:
    """Return this many numbers, four of which come before the runs, and the index of the rest."""
    found: list[int] = []
    value = shift = 0
    for at, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value = shift = 0
            if found[0] != VERSION:
                raise MalformedRecord(f"the block has version {found[0]}; only {VERSION} is known")
            if len(found) == count:
                return found, at + 1
    raise MalformedRecord("the block is truncated")


def _numbers(data: bytes) -> list[int]:
    if data.isascii():
        return list(data)
    found: list[int] = []
    value = shift = 0
    for byte in data:
        if byte < 0x80:
            found.append(value | byte << shift)
            value = shift = 0
        else:
            value |= (byte & 0x7F) << shift
            shift += 7
    return found
