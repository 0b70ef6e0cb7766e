"""At least once: records that the target holds twice: they were written, but not yet committed.

A copier that dies leaves a stretch behind its committed position. The next one begins at that
position, as the dead one had, so the first record that lands repeats the first of the stretch, and
so on until the stretch is passed. Each attempt that died before a commit leaves one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from mirrors.domain.continuity.strangers import Hole, Seen


class Repeats(NamedTuple):
    """`records` were written again; of each stretch in `owed` so many still will be."""

    records: int = 0
    owed: tuple[int, ...] = ()

    def after(self, landed: int) -> Repeats:
        """So many records of ours have landed since."""
        if not self.owed:
            return self
        again = sum(min(left, landed) for left in self.owed)
        return Repeats(self.records + again, tuple(n - landed for n in self.owed if n > landed))

    def also(self, owed: Iterable[int]) -> Repeats:
        return Repeats(self.records, (*self.owed, *owed))


def attempts(hole: Hole, batches: Iterable[Seen], own: Collection[int]) -> tuple[int, ...]:
    """How many records each of our producers left there; a take-over moves the epoch on."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in sorted(batches):
        if batch.last < hole.first or batch.first >= hole.stop:
            continue
        if batch.records and not batch.control and batch.producer in own:
            found[batch.producer, batch.epoch] += batch.records
    return tuple(found.values())
