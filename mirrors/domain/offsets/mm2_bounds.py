"""Safe lower bounds for group offsets in what another replicator copied, such as MirrorMaker 2.

Understudy keeps no offset runs of records that it did not copy itself. MM2's offset syncs say of
single records where their copies are. From them follows where a group resumes at the earliest:
every record that it has not read is at that offset or behind it, so nothing is skipped.

Why a bound is safe:

1. A replicator copies a partition in order. Behind the copy of record `u` at `d` come copies of all
   records after `u`. A group that has read `u` may resume at `d + 1`; one whose next record is `u`,
   at `d`. MM2 translates alike (`OffsetSyncStore`).
2. A sync carries no topic id: it may belong to an earlier topic of that name. So a sync counts only
   when it is proven: the records at `u` and `d`, and those after them, have the same content.
3. No bound is above a place where a later record is known to have a copy. Where MM2 crashed and
   sent records again, or two of its tasks wrote for a moment, the earlier copy counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Pair(NamedTuple):
    """As of an offset sync: the source record at `upstream` has a copy at `downstream`."""

    upstream: int
    downstream: int


class Beside(NamedTuple):
    """What this flow's own map knows around an offset that is not in it; all offsets downstream.

    `below`: where its last run below ends; `above`: where its next run begins; `end`: where what
    was taken over from the other replicator ends. None where there is none.
    """

    below: int | None = None
    above: int | None = None
    end: int | None = None


class Bound(NamedTuple):
    """`downstream` is safe; `re_reads`: records at most that the group has read and finds again,
    None where nobody knows. `pair`: the sync that it follows from, None: this flow's own run."""

    downstream: int
    re_reads: int | None
    pair: Pair | None


def candidates(pairs: Iterable[Pair], upstream: int) -> list[Pair]:
    """Pairs that bound the offset, the nearest first."""
    return sorted((pair for pair in pairs if pair.upstream <= upstream), reverse=True)


def bound_of(
    upstream: int, *, proven: Iterable[Pair], pairs: Iterable[Pair], around: Beside
) -> Bound | None:
    """The best safe bound; None without a proven pair or a run of this flow below the offset.

    `pairs` are all that are not refuted, proven or not: those above only lower the bound.
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


def _re_reads(upstream: int, downstream: int, proven: Iterable[Pair], around: Beside) -> int | None:
    """By the nearest place that is certainly not before the record that the group reads next."""
    above = [pair.downstream for pair in proven if pair.upstream >= upstream]
    known = [at for at in (*above, around.above, around.end) if at is not None and at >= downstream]
    return min(known) - downstream if known else None


def sentence(upstream: int, bound: Bound) -> str:
    """Why the group resumes there, and what it costs."""
    if bound.pair is None:
        how = "where this flow's last copy before it ends"
    else:
        how = (
            f"the records at source offset {bound.pair.upstream} and target offset "
            f"{bound.pair.downstream} were compared: one is the copy of the other"
        )
    if bound.re_reads is None:
        cost = "how many records are read again is unknown"
    else:
        cost = f"at most {bound.re_reads:,} records are read again"
    return (
        f"no offset run says where {upstream} was copied to; it is at {bound.downstream} or later "
        f"({how}). No record is skipped, {cost}"
    )
