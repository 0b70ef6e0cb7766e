"""Offset runs: which downstream offsets a stretch of upstream ones has, exactly; their records.

A run is a stretch without a hole on either side. A partition's runs are kept in blocks, one record
of the compacted topic `mm2-runs.<source>.internal` each, written in the transaction of the data.
The newest block of a partition is written again, longer, with each transaction until it is full:
compaction leaves its last version, so that at rest a run takes about five bytes.

A block in bytes, all numbers LEB128: version, number of runs, first upstream, first downstream, and
then for each run: upstream gap and downstream gap to the end of the one before, length - 1. Where
it is known, one number more: how far the first run is, downstream, from the end of the one before
it. By that a reader finds that blocks in between were lost, which no hole in the offsets tells.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import NamedTuple, Self

from mirrors.domain.internal_topics.encoding import MalformedRecord

VERSION = 1
# More runs a block: less at rest, more written again with each transaction.
BLOCK_RUNS = 128
_LEFT_OUT = ".replicated"


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
    """A block that more runs fit in. `body` has all of them but `last`, which may still grow.

    `follows` is where the map's run before the first one ends downstream; None: that is not known.
    """

    first: Run
    last: Run
    count: int
    body: bytes = b""
    end: tuple[int, int] = (0, 0)
    follows: int | None = None

    @classmethod
    def begin(cls, run: Run, follows: int | None = None) -> Self:
        if follows is not None and not 0 <= follows <= run.downstream:
            follows = None
        return cls(run, run, 1, end=(run.upstream, run.downstream), follows=follows)

    def takes(self, run: Run) -> bool:
        """Whether it may become a part of the block; if not, another one begins."""
        return self.count < BLOCK_RUNS and self.is_before(run)

    def is_before(self, run: Run) -> bool:
        """Whether the run comes behind all that is here."""
        last = self.last
        return (
            run.upstream >= last.upstream + last.length
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
        return OpenBlock(self.first, run, self.count + 1, body, end, self.follows)

    def next(self, run: Run) -> OpenBlock:
        """The block that begins with this run, which is not taken here."""
        last = self.last
        return OpenBlock.begin(run, last.downstream + last.length if self.is_before(run) else None)

    def to_bytes(self) -> bytes:
        first = self.first
        head = (VERSION, self.count, first.upstream, first.downstream)
        before = b"" if self.follows is None else _number(first.downstream - self.follows)
        return b"".join(map(_number, head)) + self.body + _put(self.last, self.end) + before


class Packed(NamedTuple):
    """What has to be written for some runs: the blocks, and the one that stays open."""

    blocks: list[OpenBlock]
    open: OpenBlock | None


def pack(open_block: OpenBlock | None, runs: Iterable[Run], follows: int | None = None) -> Packed:
    """Add runs to a partition's open block. The open block itself is not changed: a transaction
    that is aborted goes on from the old one. `follows` as in `OpenBlock`, where none is open."""
    blocks: list[OpenBlock] = []
    block = open_block
    touched = False
    for run in runs:
        if block is not None and block.takes(run):
            block = block.add(run)
        else:
            if block is not None and touched:
                blocks.append(block)
            block = OpenBlock.begin(run, follows) if block is None else block.next(run)
        touched = True
    if block is not None and touched:
        blocks.append(block)
    return Packed(blocks, block)


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
