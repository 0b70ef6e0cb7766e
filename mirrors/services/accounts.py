"""What each flow owes, evaluated from its runner's status and stored with the rows it is about.

One evaluation is one revision of the flow: its partitions, its topics and the flow change together.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.account.partition import Owed, PartitionFacts, evaluate
from mirrors.domain.account.totals import Total, total
from mirrors.domain.jobs import JobStatus, PartitionStatus, TopicStatus

# Of a topic whose partitions nobody could list.
NO_PARTITION = -1
_STOPPED = ("faulted", "gap")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """One evaluation: every selected topic-partition, and what each topic owes together."""

    partitions: Mapping[tuple[str, int], Owed]
    topics: Mapping[str, Total]


def account_of(status: JobStatus, left_behind: Collection[tuple[str, int | None]] = ()) -> Account:
    """The account as of a runner's status. `left_behind` holds topics (partition None: all of
    its partitions) that a person decided to leave behind."""
    partitions = {
        (row.topic, row.partition): evaluate(facts_of(row, left_behind))
        for row in status.partitions
    }
    by_topic: dict[str, list[Owed]] = defaultdict(list)
    for owed in partitions.values():
        by_topic[owed.topic].append(owed)
    topics = {
        row.topic: total(by_topic.get(row.topic) or _without_rows(row, left_behind))
        for row in status.topics
    }
    return Account(partitions=partitions, topics=topics)


def facts_of(
    row: PartitionStatus, left_behind: Collection[tuple[str, int | None]] = ()
) -> PartitionFacts:
    """A runner's row of a partition as facts of the account."""
    stable = row.source_stable_end
    return PartitionFacts(
        topic=row.topic,
        partition=row.partition,
        position=row.position,
        first=row.source_first,
        end=row.source_end if stable is None else stable,
        observed_at=row.as_of or None,
        time_lag_ms=row.time_lag_ms,
        is_stopped=row.state in _STOPPED,
        code=row.code,
        reason=row.reason,
        gap=row.gap,
        end_below_position=row.source_end_below_position,
        is_left_behind=is_left(row.topic, row.partition, left_behind),
    )


def is_left(topic: str, partition: int, left_behind: Collection[tuple[str, int | None]]) -> bool:
    return bool(left_behind) and ((topic, None) in left_behind or (topic, partition) in left_behind)


def _without_rows(
    row: TopicStatus, left_behind: Collection[tuple[str, int | None]]
) -> Iterable[Owed]:
    """A topic of which no partition is listed: nothing of it is owed, or nobody knows how much."""
    if row.state == "faulted" or row.code in ("cannot_be_created", "not_described"):
        for number in range(row.partitions) if row.partitions else (NO_PARTITION,):
            yield evaluate(
                PartitionFacts(
                    topic=row.topic,
                    partition=number,
                    is_stopped=True,
                    code=row.code,
                    reason=row.reason,
                    is_left_behind=is_left(row.topic, number, left_behind),
                )
            )
        return
    if row.state == "skipped" or row.code:
        code = row.code or "filtered"
        yield evaluate(PartitionFacts(topic=row.topic, partition=NO_PARTITION, code=code))
        return
    # Selected, and the first plan has not named its partitions yet.
    for number in range(row.partitions):
        yield evaluate(PartitionFacts(topic=row.topic, partition=number))
