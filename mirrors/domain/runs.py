"""Offset runs: which downstream offsets a stretch of upstream ones has, exactly; their records.

A run is a stretch without a hole on either side. A partition's runs are kept in blocks, one record
of the compacted topic `mm2-runs.<source>.internal` each, written in the transaction of the data.
The newest block of a partition is written again, longer, with each transaction until it is full:
compaction leaves its last version, so that at rest a run takes about five bytes.

A block in bytes, all numbers LEB128: version, number of runs, first upstream, first downstream, and
then for each run: upstream gap and downstream gap to the end of the one before, length - 1.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import add
from typing import NamedTuple, Self

from mirrors.domain.records import MalformedRecord

VERSION = 1
# More runs a block: less at rest, more written again with each transaction.
BLOCK_RUNS = 128
_LEFT_OUT = ".replicated"
_GOES_ON = bytes(range(0x80, 0x100))


class Run(NamedTuple):
    """`length` records from these two offsets on, one by one."""

    upstream: int
    downstream: int
    length: int


def runs_topic(source_alias: str) -> str:
    """Literal dots, whatever the separator is: MM2's rule must count it internal."""
    return f"mm2-runs.{source_alias}.internal"


def is_runs_topic(name: str) -> bool:
    return name.startswith("mm2-runs.") and name.endswith(".internal")


def left_out(born: str) -> str:
    """The generation under which a flow notes what it left out because another flow wrote it.

    Its runs say where such records came from: upstream in the source, "downstream" where that other
    flow read them. No record of the target lies behind them, so they are no part of the map.
    """
    return f"{born}{_LEFT_OUT}"


def is_left_out(born: str) -> bool:
    return born.endswith(_LEFT_OUT)


class BlockKey(NamedTuple):
    """Which runs a block holds; `first` is the upstream offset of its first run.

    `into` is the id of the topic that was written: who reads that topic finds its runs by it.
    """

    topic: str
    partition: int
    generation: str
    first: int
    into: str = ""

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError):
            raise MalformedRecord("the key is not that of a block of runs") from None


@dataclasses.dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block that more runs fit in. `body` has all of them but `last`, which may still grow."""

    first: Run
    last: Run
    count: int
    body: bytes = b""
    end: tuple[int, int] = (0, 0)

    @classmethod
    def begin(cls, run: Run) -> Self:
        return cls(run, run, 1, end=(run.upstream, run.downstream))

    def takes(self, run: Run) -> bool:
        """Whether the run comes behind all that is here; if not, another block begins."""
        last = self.last
        return (
            self.count < BLOCK_RUNS
            and run.upstream >= last.upstream + last.length
            and run.downstream >= last.downstream + last.length
        )

    def add(self, run: Run) -> OpenBlock:
        """Behind the last run, or as a part of it where the two touch on both sides."""
        last = self.last
        end = (last.upstream + last.length, last.downstream + last.length)
        if (run.upstream, run.downstream) == end:
            grown = Run(last.upstream, last.downstream, last.length + run.length)
            first = grown if self.count == 1 else self.first
            return dataclasses.replace(self, first=first, last=grown)
        body = self.body + _put(last, self.end)
        return OpenBlock(self.first, run, self.count + 1, body, end)

    def to_bytes(self) -> bytes:
        head = (VERSION, self.count, self.first.upstream, self.first.downstream)
        return b"".join(map(_number, head)) + self.body + _put(self.last, self.end)


class Packed(NamedTuple):
    """What has to be written for some runs: the blocks, and the one that stays open."""

    blocks: list[OpenBlock]
    open: OpenBlock | None


def pack(open_block: OpenBlock | None, runs: Iterable[Run]) -> Packed:
    """Add runs to a partition's open block. The open block itself is not changed: a transaction
    that is aborted goes on from the old one."""
    blocks: list[OpenBlock] = []
    block = open_block
    touched = False
    for run in runs:
        if block is not None and block.takes(run):
            block = block.add(run)
        else:
            if block is not None and touched:
                blocks.append(block)
            block = OpenBlock.begin(run)
        touched = True
    if block is not None and touched:
        blocks.append(block)
    return Packed(blocks, block)


def read_block(data: bytes) -> Iterator[Run]:
    """The runs of a block, in order."""
    upstream, downstream, gaps, downstream_gaps, lengths = _columns(data)
    starts = _starts(upstream, gaps, lengths), _starts(downstream, downstream_gaps, lengths)
    return map(Run, *starts, lengths)


def first_run(data: bytes) -> Run:
    """The first run of a block, which must be whole, without taking the others apart."""
    (_, count, upstream, downstream, *gaps, short), _ = _head(data, 7)
    if not count or len(data.translate(None, _GOES_ON)) < 4 + 3 * count:
        raise MalformedRecord("the block is cut off")
    return Run(upstream + gaps[0], downstream + gaps[1], short + 1)


class Block:
    """The runs of a block, taken apart once to be looked up often; downstream only where asked."""

    def __init__(self, data: bytes) -> None:
        upstream, self._downstream, gaps, self._gaps, self._lengths = _columns(data)
        self._starts = _starts(upstream, gaps, self._lengths)

    def around(self, upstream: int) -> tuple[Run | None, Run | None]:
        """The last run that begins at or below the offset, and the next one."""
        at = bisect.bisect_right(self._starts, upstream)
        above = self._run(at) if at < len(self._starts) else None
        return (self._run(at - 1) if at else None), above

    def _run(self, at: int) -> Run:
        before = sum(self._gaps[: at + 1]) + sum(self._lengths[:at])
        return Run(self._starts[at], self._downstream + before, self._lengths[at])


def _columns(data: bytes) -> tuple[int, int, list[int], list[int], list[int]]:
    """First upstream and downstream; of each run the gaps on both sides, and its length."""
    (_, count, upstream, downstream), behind = _head(data, 4)
    numbers = _numbers(data[behind:])
    if len(numbers) < 3 * count:
        raise MalformedRecord("the block is cut off")
    gaps, downstream_gaps, shorts = (numbers[column : 3 * count : 3] for column in range(3))
    return upstream, downstream, gaps, downstream_gaps, [short + 1 for short in shorts]


def _starts(first: int, gaps: list[int], lengths: list[int]) -> list[int]:
    """Each run begins a gap behind the end of the one before; in loops of the standard library."""
    if not gaps:
        return []
    return list(accumulate(map(add, gaps[1:], lengths), initial=first + gaps[0]))


def _head(data: bytes, count: int) -> tuple[list[int], int]:
    """So many numbers, four of which stand before the runs, and where the rest begins."""
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
    raise MalformedRecord("the block is cut off")


def _put(run: Run, end: tuple[int, int]) -> bytes:
    return (
        _number(run.upstream - end[0]) + _number(run.downstream - end[1]) + _number(run.length - 1)
    )


def _number(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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
