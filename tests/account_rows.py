"""Accounts for tests: what one topic owes, and how many other partitions are unknown."""

from __future__ import annotations

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.account.partition import PartitionFacts, evaluate
from mirrors.domain.account.totals import Total, total


def owing(
    records: int | None = 0,
    *,
    lag_ms: int | None = 0,
    seen: int = 1,
    unknown: int = 0,
    is_counted: bool = True,
) -> Total:
    """`records` None: nobody knows. `seen`: when the source was observed, epoch ms."""
    facts = [
        PartitionFacts(
            "orders",
            0,
            position=0,
            end=records,
            observed_at=seen,
            time_lag_ms=lag_ms,
            counted=CountedRange(0, records, records) if records and is_counted else None,
        )
    ]
    facts += [PartitionFacts("hidden", number, observed_at=seen) for number in range(unknown)]
    return total(evaluate(row) for row in facts)
