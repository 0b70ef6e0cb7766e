"""The range of a partition whose records are known to be the same on both sides.

It grows with each comparison that continues it. A difference stops it: it grows again when a
comparison of everything since then finds both sides the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from mirrors.domain.formatting import count, plural


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifiedRange:
    """Source offsets from `first` up to but without `end` are the same.

    - `at`: the flow's position was behind `end` or at it then; None if nothing is verified.
    - `compared`: the next comparison continues here.
    - `differences`: found in offsets from `end` on.
    """

    first: int
    end: int
    at: datetime | None
    compared: int
    differences: int = 0


def extended(
    known: VerifiedRange | None, *, first: int, end: int, differences: int, at: datetime
) -> VerifiedRange:
    """Return the range after a comparison of the offsets from `first` up to `end` at time `at`."""
    if known is None or (first > known.compared and not known.differences):
        # Records between both ranges were not compared, so the range begins again.
        known = VerifiedRange(first=first, end=first, at=None, compared=first)
    if differences:
        # What was the same before may differ now.
        same = min(known.end, max(first, known.first))
        return dataclasses.replace(
            known,
            end=same,
            at=known.at if same > known.first else None,
            compared=max(known.compared, end),
            differences=differences if first <= same else known.differences + differences,
        )
    if known.differences and (first > known.end or end < known.compared):
        return dataclasses.replace(known, compared=max(known.compared, end))
    if first > known.end or end < known.end:
        return known
    return VerifiedRange(
        first=min(first, known.first), end=end, at=at, compared=max(known.compared, end)
    )


def summary(partitions: int, ages: Iterable[datetime], differences: int) -> str:
    """Return one sentence for a flow: `ages` are the times of its verified partitions."""
    times = sorted(ages)
    if not times:
        return "No comparison has verified records yet."
    words = f"Verified up to {times[0]:%Y-%m-%d %H:%M:%S} UTC"
    missing = partitions - len(times)
    words += f" in {count(len(times))} of {count(partitions)} partitions" if missing > 0 else ""
    if differences:
        words += f"; {plural(differences, 'difference')} since then"
    return f"{words}."
