"""A range of source offsets whose records were counted: a lower bound of what is owed.

Offsets alone are no lower bound: a later offset may be a transaction marker, an aborted record or a
compacted one. Only batch headers that were read prove records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class CountedRange(NamedTuple):
    """The source offsets [first, end) hold at least `records` records. Offsets from `end` on are
    not read yet."""

    first: int
    end: int
    records: int

    def least(self, start: int, end: int) -> int:
        """A lower bound of the records in [start, end) of the same log.

        Each counted offset outside of that range may have been one of the records.
        """
        outside = max(0, start - self.first) + max(0, self.end - end)
        return max(0, self.records - outside)


class BatchCount(NamedTuple):
    """A batch, by its header: its first and last offset, its records, its timestamp in epoch ms.

    - `producer`: its producer id if it belongs to a transaction; else None.
    - `commits`: for a marker, whether it commits that transaction; None for other batches.
    """

    first: int
    last: int
    records: int
    timestamp: int
    producer: int | None = None
    commits: bool | None = None


class RecordCounter:
    """Counts the records of one log from `first` on, batch by batch, over several reads.

    Records of a transaction count once its commit marker was read.
    """

    __slots__ = ("_open", "end", "first", "records")

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.records = 0
        self._open: dict[int, int] = {}

    def add(self, batches: Iterable[BatchCount]) -> None:
        for batch in batches:
            if batch.last < self.end:
                continue
            # A batch is read whole: some of its records may be below the first offset.
            records = max(0, batch.records - max(0, self.end - batch.first))
            if batch.commits is not None:
                ended = self._open.pop(batch.producer or 0, 0)
                self.records += ended if batch.commits else 0
            elif batch.producer is None:
                self.records += records
            else:
                self._open[batch.producer] = self._open.get(batch.producer, 0) + records
            self.end = batch.last + 1

    @property
    def counted(self) -> CountedRange:
        return CountedRange(self.first, self.end, self.records)
