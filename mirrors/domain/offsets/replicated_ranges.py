"""Ranges of one partition that other flows wrote, by its own offsets; looked up batch by batch."""

from __future__ import annotations

import bisect
import heapq
import itertools

from mirrors.domain.offsets.run_blocks import first_run, read_block
from mirrors.domain.offsets.runs import BlockKey, Run
from mirrors.domain.offsets.truncation_marks import truncate_downstream

Block = tuple[str, BlockKey]
"""The topic of runs, and the key in it."""


class ReplicatedRanges:
    """The ranges. A block stays packed until a batch at or after its beginning is looked up."""

    def __init__(self) -> None:
        self._packed: dict[Block, tuple[int, bytes]] = {}
        # A heap of those that are not read, by where they begin, and of some that are gone.
        self._waiting: list[tuple[int, int, Block]] = []
        self._numbers = itertools.count()
        self._read: dict[Block, list[Run]] = {}
        # Of all that are read, unless one of those was replaced since.
        self._runs: list[Run] = []
        self._is_stale = False
        self._behind = 0

    def put(self, block: Block, value: bytes | None) -> None:
        """Store a block or its next version; None deletes it."""
        was_read = self._read.pop(block, None) is not None
        self._is_stale |= was_read
        known = self._packed.pop(block, None)
        if value is None:
            return
        first = first_run(value).downstream
        self._packed[block] = (first, value)
        if was_read or known is None or known[0] != first:
            heapq.heappush(self._waiting, (first, next(self._numbers), block))

    def cut(self, topic: str, end: int) -> None:
        """Drop the flow's runs from this offset on: they were lost."""
        for block, (first, value) in list(self._packed.items()):
            if block[0] == topic:
                body = value if first < end else None
                self.put(block, None if body is None else truncate_downstream(body, end))

    def forget(self, topic: str) -> None:
        """Drop all blocks of that topic until they are read again."""
        for block in [block for block in self._packed if block[0] == topic]:
            self.put(block, None)

    def forget_before(self, offset: int) -> None:
        """Allow dropping what is below: it will not be looked up."""
        self._behind = offset

    def inside(self, first: int, last: int) -> list[Run]:
        """Return the parts of runs within these offsets, both inclusive."""
        if self._is_stale or (self._waiting and self._waiting[0][0] <= last):
            self._unpack(last)
        runs = self._runs
        at = max(0, bisect.bisect_right(runs, first, key=_downstream) - 1)
        found = []
        while at < len(runs) and runs[at].downstream <= last:
            upstream, downstream, length = runs[at]
            cut = max(0, first - downstream)
            length = min(length, last + 1 - downstream) - cut
            if length > 0:
                found.append(Run(upstream + cut, downstream + cut, length))
            at += 1
        return found

    def _unpack(self, last: int) -> None:
        """Read the blocks that begin at or below `last`, and drop what is no longer needed."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= last:
            first, _, block = waiting[0]
            begin, value = self._packed.get(block, (-1, b""))
            if begin == first and block not in self._read:
                self._read[block] = list(read_block(value))
            heapq.heappop(waiting)
        # Within a partition a flow's runs rise on both sides, so a block that ends behind us, with
        # another one of the same flow after it, never grows again; alone it may.
        newest: dict[tuple[str, str], int] = {}
        for (topic, key), runs in self._read.items():
            flow = (topic, key.generation)
            newest[flow] = max(newest.get(flow, 0), runs[-1].downstream)
        for (topic, key), runs in list(self._read.items()):
            end = runs[-1].downstream + runs[-1].length
            if end <= self._behind and runs[-1].downstream < newest[topic, key.generation]:
                del self._read[topic, key], self._packed[topic, key]
        self._runs = sorted((run for runs in self._read.values() for run in runs), key=_downstream)
        self._is_stale = False


def _downstream(run: Run) -> int:
    return run.downstream
