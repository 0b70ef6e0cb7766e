"""Safe lower bounds of group offsets in what another replicator copied, such as MirrorMaker 2.

Understudy has no offset runs of records that it did not copy. MM2's offset syncs give the copies of
single records. They bound the earliest resume offset: every unread record is at or after it, so
none is skipped.

Why a bound is safe:
1. A replicator copies a partition in order. The copies of all records after `u` follow the copy of
   `u` at `d`. A group that has read `u` may resume at `d + 1`; one whose next record is `u`, at
   `d`. MM2 translates in the same way (`OffsetSyncStore`).
2. A sync has no topic id: it may belong to an earlier topic of that name. So a sync counts only if
   it is verified: the records at `u` and `d`, and those after them, have equal content.
3. No bound is above the known copy of a later record. Where MM2 crashed and sent records again, or
   two of its tasks wrote for a moment, the earlier copy counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Pair(NamedTuple):
    """An offset sync: the source record at `upstream` has a copy at `downstream`."""

    upstream: int
    downstream: int


class Neighbors(NamedTuple):
    """What this flow's own map knows around an offset that it lacks, as target offsets.

    - `below`: the end of its last run below. `above`: the start of its next run.
    - `end`: the end of what the other replicator copied.

    None if there is none.
    """

    below: int | None = None
    above: int | None = None
    end: int | None = None


class Bound(NamedTuple):
    """A safe resume offset.

    - `re_reads`: at most how many records the group reads again; None if unknown.
    - `pair`: the sync that it follows from; None if it follows from this flow's own run.
    """

    downstream: int
    re_reads: int | None
    pair: Pair | None


def candidates(pairs: Iterable[Pair], upstream: int) -> list[Pair]:
    """Return the pairs that bound the offset, the nearest first."""
    return sorted((pair for pair in pairs if pair.upstream <= upstream), reverse=True)


def bound_of(
    upstream: int, *, proven: Iterable[Pair], pairs: Iterable[Pair], around: Neighbors
) -> Bound | None:
    """Return the best safe bound; None without a verified pair or an own run below the offset.

    `pairs`: all that are not refuted, verified or not; those above only lower the bound.
    """
    proven = list(proven)
    below = around.below
    best: tuple[int, Pair | None] | None = None if below is None else (below, None)
    for pair in proven:
        if pair.upstream > upstream:
            continue
        at = pair.downstream + (pair.upstream < upstream)
        if best is None or at > best[0]:
            best = (at, pair)
    if best is None:
        return None
    later = [pair.downstream for pair in pairs if pair.upstream >= upstream]
    caps = [at for at in (*later, around.above) if at is not None and at >= (below or 0)]
    downstream = min([best[0], *caps])
    return Bound(downstream, _re_reads(upstream, downstream, proven, around), best[1])


def _re_reads(
    upstream: int, downstream: int, proven: Iterable[Pair], around: Neighbors
) -> int | None:
    """Return the distance to the nearest offset that is certainly not before the next record."""
    above = [pair.downstream for pair in proven if pair.upstream >= upstream]
    known = [at for at in (*above, around.above, around.end) if at is not None and at >= downstream]
    return min(known) - downstream if known else None


def sentence(upstream: int, bound: Bound) -> str:
    """Return why the group resumes there, and how many records it reads again."""
    if bound.pair is None:
        how = "the end of this flow's last copy before it"
    else:
        how = (
            f"the records at source offset {bound.pair.upstream} and target offset "
            f"{bound.pair.downstream} were compared and are the same record"
        )
    if bound.re_reads is None:
        cost = "the number of re-read records is unknown"
    else:
        cost = f"at most {bound.re_reads:,} records are re-read"
    return (
        f"no offset run covers source offset {upstream}; its copy is at {bound.downstream} or "
        f"later ({how}). No record is skipped; {cost}"
    )
