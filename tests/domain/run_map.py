"""A map of offsets built from the written runs: the reference for the index of blocks."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import NOTHING, Translation, nearest, translate_between


class RunMap:
    """The runs of one partition in one generation, in the order in which they were written.

    Upstream offsets rise, but for a restart that copied some records twice: then the map begins
    again there, and the later copy counts, since what follows it is complete.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
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
        if position is None:
            return Translation(
                upstream=upstream, downstream=None, outcome="unknown", reason=NOTHING
            )
        below, above = self._around(nearest(upstream, position=position))
        return translate_between(upstream, position=position, below=below, above=above)

    def _around(self, upstream: int) -> tuple[Run | None, Run | None]:
        # Of two that begin at the same offset the later one counts.
        starts = [part[0] for part in reversed(self._parts) if part[0].upstream > upstream]
        part = next((p for p in reversed(self._parts) if p[0].upstream <= upstream), None)
        if part is None:
            below = None
        else:
            at = bisect.bisect_right(part, upstream, key=lambda run: run.upstream)
            below, starts = part[at - 1], [*starts, *part[at : at + 1]]
        return below, min(starts, key=lambda run: run.upstream, default=None)
