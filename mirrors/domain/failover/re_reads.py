"""Records that consumers read again after a failover: a sum with its certainty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirrors.domain.account.partition import Certainty
from mirrors.domain.account.totals import certainty_of
from mirrors.domain.failover.shapes import PlacePlan


class ReReads(NamedTuple):
    """`records` sums what is known; `unknown` counts the group-partitions without a figure."""

    records: int
    certainty: Certainty
    unknown: int


def sum_re_reads(places: Iterable[PlacePlan]) -> ReReads:
    """Group offsets that were read earlier give a lower bound: groups consumed on since."""
    rows: list[tuple[int | None, Certainty]] = []
    for place in places:
        if place.re_reads is None:
            rows.append((None, "unknown"))
        elif place.seen_at is not None:
            rows.append((place.re_reads, "at_least"))
        else:
            is_exact = place.re_reads == 0 or place.outcome not in ("expired", "lower_bound")
            rows.append((place.re_reads, "counted" if is_exact else "at_most"))
    return add_up(rows)


def add_up(rows: Iterable[tuple[int | None, Certainty]]) -> ReReads:
    found = list(rows)
    known = sum(records for records, _ in found if records is not None)
    certainty = certainty_of((certainty for _, certainty in found), known=known > 0)
    unknown = sum(records is None for records, _ in found)
    return ReReads(known, certainty, unknown)
