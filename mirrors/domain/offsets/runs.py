"""Offset runs: the exact target offsets of ranges of source offsets, and their stored form.

A run is a range without holes on either side. A partition's runs are stored in blocks, each one
record of the compacted topic `mm2-runs.<source>.internal`. A block is written in the transaction of
its data.

Each transaction writes the partition's newest block again, longer, until it is full. Compaction
keeps its last version, so a stored run takes about five bytes.

Format of a block, all numbers LEB128: version, number of runs, first upstream, first downstream.
Then for each run: upstream gap and downstream gap to the end of the run before, length - 1. One
more number, if known: the downstream distance of the first run from the end of the run before it.
By it a reader detects lost blocks in between, which no hole in the offsets shows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import NamedTuple, Self

from mirrors.domain.internal_topics.encoding import MalformedRecord

VERSION = 1
# More runs per block take less space; each transaction then rewrites more.
BLOCK_RUNS = 128
_LEFT_OUT = ".replicated"


class Run(NamedTuple):
    """`length` consecutive records from these two offsets on."""

    upstream: int
    downstream: int
    length: int


def runs_topic(source_alias: str) -> str:
    """Return the topic's name. Its dots are literal, because MM2 must count it as internal."""
    return f"mm2-runs.{source_alias}.internal"


def is_runs_topic(name: str) -> bool:
    return name.startswith("mm2-runs.") and name.endswith(".internal")


def skipped_generation(born: str) -> str:
    """Return the generation under which a flow notes skipped copies of other flows.

    Its runs give the origin of these records: "upstream" in the source, "downstream" where the
    other flow read them. They have no copies on the target, so they are not part of the offset map.
    """
    return f"{born}{_LEFT_OUT}"


def is_skipped_generation(born: str) -> bool:
    return born.endswith(_LEFT_OUT)


class BlockKey(NamedTuple):
    """Which runs a block holds; `first` is the upstream offset of its first run.

    `into` is the id of the written topic, by which a reader of that topic finds its runs.
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
            raise MalformedRecord("the key is not that of a block of offset runs") from None


@dataclasses.dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block that is not full. `body` has all runs except `last`, which may still grow.

    `follows`: where the run before the first one ends downstream; None if unknown.
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
        """Return whether the run can be added to the block; otherwise a new block begins."""
        return self.count < BLOCK_RUNS and self.is_before(run)

    def is_before(self, run: Run) -> bool:
        """Return whether the run comes after all runs of the block."""
        last = self.last
        return (
            run.upstream >= last.upstream + last.length
            and run.downstream >= last.downstream + last.length
        )

    def add(self, run: Run) -> OpenBlock:
        """Append a run, or extend the last one if the two touch on both sides."""
        last = self.last
        end = (last.upstream + last.length, last.downstream + last.length)
        if (run.upstream, run.downstream) == end:
            grown = Run(last.upstream, last.downstream, last.length + run.length)
            first = grown if self.count == 1 else self.first
            return dataclasses.replace(self, first=first, last=grown)
        body = self.body + _put(last, self.end)
        return OpenBlock(self.first, run, self.count + 1, body, end, self.follows)

    def next(self, run: Run) -> OpenBlock:
        """Return the block that begins with this run, which does not fit here."""
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
    """Add runs to a partition's open block.

    The open block itself is not changed: after an aborted transaction the old one is used again.
    `follows` as in `OpenBlock`, if none is open.
    """
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
