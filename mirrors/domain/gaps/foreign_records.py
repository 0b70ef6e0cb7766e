"""Foreign records in a remote topic, found between the offsets of this flow's batches.

Each acknowledgement gives the offset of a batch. Usually it follows the batch before, or a marker
of the flow's own transaction. Other offsets between are read: batches of another producer,
committed or non-transactional, are foreign; markers and aborted batches hold no records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

# Ranges that are listed; of more, the sentence says the number of ranges and of records.
SHOWN = 20
# A foreign producer still writes if its last record is younger than this.
ONGOING = timedelta(minutes=5)


class UnmappedRange(NamedTuple):
    """Offsets from `first` to `stop` (exclusive) that no batch of the flow got."""

    first: int
    stop: int


class ObservedBatch(NamedTuple):
    """One batch of the remote partition that is in no aborted transaction."""

    first: int
    last: int
    records: int
    producer: int
    control: bool
    epoch: int = 0


class ForeignRange(NamedTuple):
    """Offsets `first` to `last`, inclusive, with `records` foreign records.

    `route`: the topic, if a rule names it; empty for the topic that the policy names.
    """

    first: int
    last: int
    records: int
    route: str = ""


def foreign_ranges(
    hole: UnmappedRange, batches: Iterable[ObservedBatch], own: Collection[int]
) -> list[ForeignRange]:
    """Return the foreign records between the flow's batches; adjacent ones are merged."""
    found: list[ForeignRange] = []
    for batch in sorted(batches):
        if batch.control or batch.producer in own or not batch.records:
            continue
        if batch.last < hole.first or batch.first >= hole.stop:
            continue
        if found and found[-1].last + 1 == batch.first:
            before = found[-1]
            found[-1] = ForeignRange(before.first, batch.last, before.records + batch.records)
        else:
            found.append(ForeignRange(batch.first, batch.last, batch.records))
    return found


def unreported_ranges(ranges: Iterable[ForeignRange], reported_to: int) -> list[ForeignRange]:
    """Return the ranges of one topic after `reported_to`: a runner reports each repeatedly.

    An earlier check may have reported a part of a range; the rest is counted by offsets.
    """
    found = []
    for found_range in sorted(ranges):
        if found_range.first >= reported_to:
            found.append(found_range)
        elif found_range.last >= reported_to:
            rest = min(found_range.records, found_range.last - reported_to + 1)
            found.append(found_range._replace(first=reported_to, records=rest))
    return found


def foreign_sentence(ranges: Iterable[ForeignRange], *, remote: str, target: str) -> str:
    """Return the sentence for a person; `remote` names the remote partition."""
    rows = sorted(ranges)
    where = ", ".join(
        str(row.first) if row.first == row.last else f"{row.first} to {row.last}"
        for row in rows[:SHOWN]
    )
    more = f" and {len(rows) - SHOWN} more ranges" if len(rows) > SHOWN else ""
    count = sum(row.records for row in rows)
    records = "1 record" if count == 1 else f"{count} records"
    one = len(rows) == 1 and rows[0].first == rows[0].last
    return (
        f"Another producer wrote {records} into {remote} on {target}, at "
        f"offset{'' if one else 's'} {where}{more}. Consumers read them among the replicated "
        "records. Replication continues, and group offsets are still translated correctly. Find "
        "that producer, and allow only Understudy to write remote topics (an ACL)."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignWrites:
    """What another producer writes into a flow's remote topics, up to now.

    - `since`: when the first of these records was found, at most about an hour ago.
    - `place` and `last`: the remote partition and the offset of the newest one, found at `last_at`.
    """

    records: int
    partitions: int
    since: datetime
    last_at: datetime
    place: str
    last: int

    def sentence(self, target: str) -> str:
        """Return the sentence. It has no age, so it stays equal while nothing new is found."""
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        where = self.place if self.partitions == 1 else f"{self.partitions:,} remote partitions"
        newest = "" if self.partitions == 1 else f" of {self.place}"
        return (
            f"Another producer writes into {where} on {target}: {records} since "
            f"{self.since:%Y-%m-%d %H:%M} UTC, the last at offset {self.last}{newest}. Consumers "
            "read them among the replicated records. Find that producer and stop it."
        )
