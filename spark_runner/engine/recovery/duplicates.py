"""At least once: counts records that a failed process wrote without a commit, as they are
duplicated.

They lie between the committed downstream offset and our first batch: from that batch on, the leader
rejects the predecessor. The number is committed with the position, so a crash neither loses it nor
counts it twice. Each range is read once, before the first commit, and only if it is not empty.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import ObservedBatch, UnmappedRange
from mirrors.domain.internal_topics.records import Position
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.kafka_protocol.cluster import ClusterClient


class Duplicates(NamedTuple):
    """`records` are duplicated; each entry of `owed` is a number of records that still will be."""

    records: int = 0
    owed: tuple[int, ...] = ()

    def after(self, written: int) -> Duplicates:
        """The state after `written` more acknowledged records."""
        if not self.owed:
            return self
        again = sum(min(left, written) for left in self.owed)
        return Duplicates(
            self.records + again, tuple(n - written for n in self.owed if n > written)
        )

    def with_owed(self, owed: Iterable[int]) -> Duplicates:
        return Duplicates(self.records, (*self.owed, *owed))


def attempts(
    span: UnmappedRange, batches: Iterable[ObservedBatch], own: Collection[int]
) -> tuple[int, ...]:
    """Records of each of our producers in the range; a takeover increases the epoch."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in sorted(batches):
        if batch.last < span.first or batch.first >= span.stop:
            continue
        if batch.records and not batch.control and batch.producer in own:
            found[batch.producer, batch.epoch] += batch.records
    return tuple(found.values())


log = logging.getLogger(__name__)

# Commits wait for this lookup.
LOOKUP_S = 1.0
# Without a committed offset, the range begins this far before our first batch.
_WINDOW = 200_000
_NONE = Duplicates()


@dataclasses.dataclass
class _PartitionDuplicates:
    """One partition since the takeover."""

    committed: Duplicates = _NONE
    # -1: nothing was committed here yet
    begins: int = -1
    # The range is read before the first commit.
    waits: bool = False
    # Until our first commit another process of this flow may have written, under another id.
    is_first: bool = True


class DuplicateCounter:
    """Counts duplicates of all partitions of a slice."""

    def __init__(self, target: ClusterClient, *, transactional: bool) -> None:
        self._target = target
        self._transactional = transactional
        self._producer: int | None = None
        self._own: set[int] = set()
        self._rows: dict[Partition, _PartitionDuplicates] = {}

    @property
    def producer(self) -> int | None:
        """The id for the position record: later batches under it will be duplicated. None for
        transactions."""
        return None if self._transactional else self._producer

    def add_producer(self, producer: int) -> None:
        """Batches under this id are ours."""
        self._producer = producer
        self._own.add(producer)

    def resumed(self, partition: Partition, known: Position | None) -> None:
        """Take over the partition with its committed position."""
        before = self._rows.get(partition)
        row = self._rows[partition] = _PartitionDuplicates(
            is_first=before is None or before.is_first
        )
        row.waits = not self._transactional
        if known is not None:
            row.committed = Duplicates(known.repeats, known.owed)
            row.begins = -1 if known.next_downstream is None else known.next_downstream
            if known.producer is not None:
                self._own.add(known.producer)
            # The flow was at least once until now; otherwise records after the position are
            # aborted.
            row.waits = row.begins >= 0 and (row.waits or known.producer is not None)

    def count_before_commit(self, moved: Iterable[Partition]) -> None:
        """Before a commit, when everything sent is acknowledged."""
        deadline = time.monotonic() + LOOKUP_S
        for partition in moved:
            row = self._rows[partition]
            if row.waits and partition.records:
                row.waits = False
                self._count_range(partition, row, partition.runs[0][1], deadline)

    def count_before_write(self, ends: Mapping[Partition, int]) -> None:
        """Before anything is written, where the offset of our first record will not be known."""
        deadline = time.monotonic() + LOOKUP_S
        for partition, end in ends.items():
            row = self._rows[partition]
            if row.waits and row.begins >= 0:
                self._count_range(partition, row, end, deadline)
            row.waits = False

    def commit_failed(self, partition: Partition, written: int) -> None:
        """These records are on the target and will be written again, since the commit failed."""
        if not self._transactional:
            row = self._rows[partition]
            row.committed = row.committed.with_owed((written,))

    def after_commit(self, partition: Partition) -> Duplicates:
        """The state once all acknowledged records are committed."""
        return self._rows[partition].committed.after(partition.records)

    def committed(self, moved: Iterable[Partition]) -> None:
        for partition in moved:
            row = self._rows[partition]
            row.committed, row.is_first = self.after_commit(partition), False

    def count(self, partition: Partition) -> int:
        """The committed number of duplicates."""
        row = self._rows.get(partition)
        return row.committed.records if row else 0

    def _count_range(
        self, partition: Partition, row: _PartitionDuplicates, stop: int, deadline: float
    ) -> None:
        span = UnmappedRange(row.begins if row.begins >= 0 else max(0, stop - _WINDOW), stop)
        if row.is_first:
            partition.forget_range(span.first, span.stop)
        if span.first >= stop:
            return
        owed = self._owed(partition, span, deadline)
        if owed is None and row.begins >= 0:
            log.warning(
                "%s: %s cannot be read; all of it counts as duplicates", partition.name, span
            )
            owed = (stop - span.first,)
        row.committed = row.committed.with_owed(owed or ())

    def _owed(
        self, partition: Partition, span: UnmappedRange, deadline: float
    ) -> tuple[int, ...] | None:
        """None when the range cannot be read."""
        if time.monotonic() >= deadline:
            return None
        try:
            for _, seen in read_ranges(self._target, partition, [span], deadline):
                return attempts(span, seen, self._own)
        except UnderstudyError as error:
            log.warning("duplicates cannot be counted: %s", error.message)
        return None
