"""At least once: counts what a copier that died had written and not committed, as it lands again.

It lies from where the committed position says our next record belongs up to our first batch: from
that one on the leader refuses the predecessor. The number is committed with the position, so that
a kill neither loses it nor has it counted twice. A stretch is looked into once, before the first
commit, and only if there is one.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import Hole, Seen
from mirrors.domain.internal_topics.records import Position
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.kafka_protocol.cluster import ClusterClient


class Duplicates(NamedTuple):
    """`records` were written again; of each stretch in `owed` so many still will be."""

    records: int = 0
    owed: tuple[int, ...] = ()

    def after(self, landed: int) -> Duplicates:
        """So many records of ours have landed since."""
        if not self.owed:
            return self
        again = sum(min(left, landed) for left in self.owed)
        return Duplicates(self.records + again, tuple(n - landed for n in self.owed if n > landed))

    def with_owed(self, owed: Iterable[int]) -> Duplicates:
        return Duplicates(self.records, (*self.owed, *owed))


def attempts(hole: Hole, batches: Iterable[Seen], own: Collection[int]) -> tuple[int, ...]:
    """How many records each of our producers left there; a take-over moves the epoch on."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in sorted(batches):
        if batch.last < hole.first or batch.first >= hole.stop:
            continue
        if batch.records and not batch.control and batch.producer in own:
            found[batch.producer, batch.epoch] += batch.records
    return tuple(found.values())


log = logging.getLogger(__name__)

# Commits wait for it.
LOOK_S = 1.0
# Where nothing was ever committed, the stretch begins somewhere before our first batch.
_WINDOW = 200_000
_NONE = Duplicates()


@dataclasses.dataclass
class _Row:
    """One partition since the take-over."""

    committed: Duplicates = _NONE
    # -1: nothing was ever committed here
    begins: int = -1
    # until the first commit
    waits: bool = False
    # Until a commit of ours another process may have written it, and one of the flow's own under
    # another id is no stranger.
    is_first: bool = True


class DuplicateCounter:
    """One for a slice."""

    def __init__(self, target: ClusterClient, *, transactional: bool) -> None:
        self._target = target
        self._transactional = transactional
        self._producer: int | None = None
        self._own: set[int] = set()
        self._rows: dict[Partition, _Row] = {}

    @property
    def producer(self) -> int | None:
        """Whoever finds batches of this id behind our last commit knows that they are repeated."""
        return None if self._transactional else self._producer

    def add_producer(self, producer: int) -> None:
        """What lies on the target under this id is ours."""
        self._producer = producer
        self._own.add(producer)

    def resumed(self, partition: Partition, known: Position | None) -> None:
        """We took over, and this is what was committed."""
        before = self._rows.get(partition)
        row = self._rows[partition] = _Row(is_first=before is None or before.is_first)
        row.waits = not self._transactional
        if known is not None:
            row.committed = Duplicates(known.repeats, known.owed)
            row.begins = -1 if known.next_downstream is None else known.next_downstream
            if known.producer is not None:
                self._own.add(known.producer)
            # The flow was at least once until now, or what is behind the position is aborted.
            row.waits = row.begins >= 0 and (row.waits or known.producer is not None)

    def look(self, moved: Iterable[Partition]) -> None:
        """Before a commit, when all that was sent has landed."""
        deadline = time.monotonic() + LOOK_S
        for partition in moved:
            row = self._rows[partition]
            if row.waits and partition.records:
                row.waits = False
                self._look_at(partition, row, partition.runs[0][1], deadline)

    def count_before_write(self, ends: Mapping[Partition, int]) -> None:
        """Before anything is written, where nobody learns the offset of our first record."""
        deadline = time.monotonic() + LOOK_S
        for partition, end in ends.items():
            row = self._rows[partition]
            if row.waits and row.begins >= 0:
                self._look_at(partition, row, end, deadline)
            row.waits = False

    def given_up(self, partition: Partition, landed: int) -> None:
        """So many records lie there and are written again, for want of a commit."""
        if not self._transactional:
            row = self._rows[partition]
            row.committed = row.committed.with_owed((landed,))

    def after_commit(self, partition: Partition) -> Duplicates:
        """What holds once all that has landed is committed."""
        return self._rows[partition].committed.after(partition.records)

    def committed(self, moved: Iterable[Partition]) -> None:
        for partition in moved:
            row = self._rows[partition]
            row.committed, row.is_first = self.after_commit(partition), False

    def count(self, partition: Partition) -> int:
        """As committed."""
        row = self._rows.get(partition)
        return row.committed.records if row else 0

    def _look_at(self, partition: Partition, row: _Row, stop: int, deadline: float) -> None:
        hole = Hole(row.begins if row.begins >= 0 else max(0, stop - _WINDOW), stop)
        if row.is_first and hole in partition.unverified_ranges:
            partition.unverified_ranges.remove(hole)
        if hole.first >= stop:
            return
        owed = self._owed(partition, hole, deadline)
        if owed is None and row.begins >= 0:
            log.warning("%s: all of %s counts as repeated, it cannot be read", partition.name, hole)
            owed = (stop - hole.first,)
        row.committed = row.committed.with_owed(owed or ())

    def _owed(self, partition: Partition, hole: Hole, deadline: float) -> tuple[int, ...] | None:
        """None when it cannot be read."""
        if time.monotonic() >= deadline:
            return None
        try:
            for _, seen in read_ranges(self._target, partition, [hole], deadline):
                return attempts(hole, seen, self._own)
        except UnderstudyError as error:
            log.warning("what is repeated cannot be looked at: %s", error.message)
        return None
