"""Translation of source offsets to target offsets by exact runs, with the kind of each result."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.offsets.runs import Run

Outcome = Literal["exact", "gap", "ahead", "lower_bound", "expired", "unknown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """Where a group at `upstream` resumes on the target; `downstream` is None if unknown.

    - exact: the record itself, or the end of what was copied.
    - gap: the record was never copied (a transaction marker, compaction, a filter), so the next
      one.
    - ahead: the group read records that are not copied yet; it will read them again.
    - lower_bound: another replicator copied it, and its copy is there or later (`mm2_bounds`).
    - expired: the committed offset no longer exists (`groups.resume`).
    - unknown: no map covers it.

    `all_dropped`: a rule dropped all records of the partition that were read.

    `re_reads`: records after that offset that the group has read already, as where two directions
    are mixed. For a lower bound it is at most that many; None if unknown.
    """

    upstream: int
    downstream: int | None
    outcome: Outcome
    reason: str = ""
    re_reads: int | None = 0
    all_dropped: bool = False


ALL_DROPPED = "rule {number} of the flow dropped all records of {name} that were read so far"
DROPPED_OR_ROUTED = f"{ALL_DROPPED}, or routed them to other topics"
NONE_ROUTED = "rule {number} of the flow routed no record of {name} to {route} so far"
NOTHING = "no record of this partition was replicated yet"


def nearest(upstream: int, *, position: int) -> int:
    """Return the offset whose neighbors decide: at most the last one below the position.

    Runs and position are read one after the other. For a group beyond the position, a newer run
    would lead to an offset that is ahead of the group.
    """
    return min(upstream, position - 1)


LOST = (
    "no offset runs cover the records from source offset {first} on: MirrorMaker 2 or another "
    "lane replicated them, or the target lost the runs (an unclean leader election of the runs "
    "topic, or a restored disk)"
)


def translate_between(
    upstream: int,
    *,
    position: int,
    below: Run | None,
    above: Run | None,
    follows: int | None = None,
    map_end: int | None = None,
) -> Translation:
    """Translate by the run at or below `nearest`, and the one above it.

    - `follows`: where, downstream, the run before `above` ended when it was written.
    - `map_end`: where the last run below the position ended.

    By these, missing runs are detected. An offset in missing runs is unknown, because the next run
    may be far after it.
    """
    end = None
    if below is not None:
        end = below.downstream + min(below.length, position - below.upstream)
    is_cut = map_end is not None and (end is None or end < map_end)
    if upstream >= position:
        return _at_the_end(upstream, position, map_end if is_cut else end)
    if below is not None and upstream < below.upstream + below.length:
        return _answer(upstream, below.downstream + upstream - below.upstream, "exact")
    if above is None or above.upstream >= position:
        if is_cut:
            return _lost(upstream, below)
        if end is None:
            return _answer(upstream, None, "unknown", NOTHING)
        return _answer(upstream, end, "gap", "no record from this offset on was replicated yet")
    if is_torn(below, follows):
        return _lost(upstream, below)
    if below is None and above.downstream > 0:
        # An MM2 before a takeover, or an earlier topic: the group may have read part of it.
        reason = (
            f"this flow replicated nothing before source offset {above.upstream}, and it did not "
            f"write what the remote topic holds before offset {above.downstream}"
        )
        return _answer(upstream, None, "unknown", reason)
    reason = "no record with this offset was replicated; this is the next replicated one"
    return _answer(upstream, above.downstream, "gap", reason)


def _at_the_end(upstream: int, position: int, end: int | None) -> Translation:
    """Translate an offset at or beyond the position. `end`: of what was copied below it."""
    if end is None:
        return _answer(upstream, None, "unknown", NOTHING)
    if upstream == position:
        return _answer(upstream, end, "exact", "all records that the group read were replicated")
    reason = f"the group is {upstream - position} offsets ahead of replication"
    return _answer(upstream, end, "ahead", reason)


def _lost(upstream: int, below: Run | None) -> Translation:
    reason = LOST.format(first=0 if below is None else below.upstream + below.length)
    return _answer(upstream, None, "unknown", reason)


def is_torn(below: Run | None, follows: int | None) -> bool:
    """Return whether runs are missing before a later run that follows offset `follows`."""
    return follows is not None and (below is None or below.downstream + below.length < follows)


def _answer(
    upstream: int, downstream: int | None, outcome: Outcome, reason: str = ""
) -> Translation:
    return Translation(upstream=upstream, downstream=downstream, outcome=outcome, reason=reason)
