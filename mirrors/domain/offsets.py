"""From upstream to downstream offsets by exact runs; each answer names how it was obtained."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable
from typing import Literal

from mirrors.domain.runs import Run

Outcome = Literal["exact", "gap", "ahead", "unknown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """Where a group that stands at `upstream` goes on downstream; None when nobody knows.

    exact: the record itself, or the end of what was copied. gap: the record was never copied (a
    transaction's marker, compaction, a filter), so the next one. ahead: the group read records that
    are not copied yet; it will read them again. unknown: there is no map here.
    """

    upstream: int
    downstream: int | None
    outcome: Outcome
    reason: str = ""


class RunMap:
    """The runs of one partition in one generation, in the order in which they were written.

    Upstream offsets rise, but for a restart that copied some records twice: then the map begins
    again there, and the later copy counts, since what follows it is complete.
    """

    def __init__(self, runs: Iterable[Run], *, known_from: int | None = None) -> None:
        """`known_from`: runs before this upstream offset were dropped; None when none was."""
        self._known_from = known_from
        # Each part rises; a later one begins below the end of the one before.
        self._parts: list[list[Run]] = []
        end = None
        for run in runs:
            if end is None or run.upstream < end:
                self._parts.append([])
            self._parts[-1].append(run)
            end = run.upstream + run.length

    def translate(self, upstream: int, *, position: int | None) -> Translation:
        """`position` is the next upstream offset to be copied; None when nothing was."""
        if position is None or not self._parts:
            return _answer(upstream, None, "unknown", "no record of this partition was copied yet")
        if self._known_from is not None and upstream < self._known_from:
            reason = f"the map of offsets before {self._known_from} was dropped"
            return _answer(upstream, None, "unknown", reason)
        last = self._parts[-1][-1]
        end = last.downstream + last.length
        if upstream > position:
            reason = f"the group is {upstream - position} offsets ahead of the copy"
            return _answer(upstream, end, "ahead", reason)
        if upstream == position:
            return _answer(upstream, end, "exact", "all that was read was copied")
        return self._inside(upstream, end)

    def _inside(self, upstream: int, end: int) -> Translation:
        part = next((p for p in reversed(self._parts) if p[0].upstream <= upstream), self._parts[0])
        at = bisect.bisect_right(part, upstream, key=lambda run: run.upstream) - 1
        run = part[at]
        if at >= 0 and upstream < run.upstream + run.length:
            return _answer(upstream, run.downstream + upstream - run.upstream, "exact")
        reason = "no record with this offset was copied; the next one that was"
        if at + 1 < len(part):
            return _answer(upstream, part[at + 1].downstream, "gap", reason)
        return _answer(upstream, end, "gap", "no record from this offset on was copied yet")


def _answer(
    upstream: int, downstream: int | None, outcome: Outcome, reason: str = ""
) -> Translation:
    return Translation(upstream=upstream, downstream=downstream, outcome=outcome, reason=reason)
