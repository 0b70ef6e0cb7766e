"""Lanes: how records were replicated, how many by each lane, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal, Self, get_args

# - raw: the unchanged bytes of a batch.
# - repack: a rewritten batch, record by record as bytes, for the reason given.
# - record: record by record, by a Kafka client.
Lane = Literal["raw", "repack", "record"]
LANES: tuple[Lane, ...] = get_args(Lane)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaneFigure:
    """What one lane replicated for one reason (`why`, empty for the raw lane).

    `bytes` are compressed bytes as written. Writes of aborted transactions count too.
    """

    lane: Lane
    why: str
    batches: int
    records: int
    bytes: int

    @property
    def key(self) -> tuple[str, str]:
        return self.lane, self.why

    def plus(self, other: Self) -> Self:
        return dataclasses.replace(
            self,
            batches=self.batches + other.batches,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
        )

    def since(self, before: Self) -> Self:
        """Return what was added to figures that only rise."""
        return dataclasses.replace(
            self,
            batches=max(0, self.batches - before.batches),
            records=max(0, self.records - before.records),
            bytes=max(0, self.bytes - before.bytes),
        )


def counter_increase(before: Iterable[LaneFigure], now: Iterable[LaneFigure]) -> list[LaneFigure]:
    known = {row.key: row for row in before}
    return [row.since(known[row.key]) if row.key in known else row for row in now]


def sum_by_lane(rows: Iterable[LaneFigure]) -> tuple[LaneFigure, ...]:
    """Return one row for each lane and reason."""
    sums: dict[tuple[str, str], LaneFigure] = {}
    for row in rows:
        known = sums.get(row.key)
        sums[row.key] = row if known is None else known.plus(row)
    return tuple(sorted(sums.values(), key=lambda row: (LANES.index(row.lane), row.why)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """A row of figures with its percentage of all batches."""

    lane: str
    why: str
    batches: int
    percent: float
    records: int
    bytes: int


def shares(rows: Iterable[LaneFigure]) -> list[Share]:
    """Return the shares, the largest first."""
    found = list(rows)
    total = sum(row.batches for row in found) or 1
    made = [
        Share(**dataclasses.asdict(row), percent=round(100 * row.batches / total, 1))
        for row in found
    ]
    return sorted(made, key=lambda row: (-row.batches, row.lane, row.why))
