"""Which topic-partitions take part in a failover, and what each of them owes by the account.

Invariants:
A. Every topic-partition on the source that the flow's filters select is one part, copied or not.
B. A part that is left behind by decision does not take part, whatever its state.
C. A part that is not copied does not take part either, but blocks until somebody decides on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from mirrors.domain.account.partition import (
    Owed,
    PartitionFacts,
    evaluate,
    other_log,
    owed_from,
)
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.left_behind import LeftBehind, decision_on
from mirrors.domain.failover.plan_types import FailoverSnapshot, GroupSnapshot, PartitionSnapshot
from mirrors.domain.gaps.lost_ranges import GapFacts

Role = Literal["replicated", "not_copied", "left_behind"]
# The code of a selected topic that no plan of the flow has named yet.
NOT_COPIED = "not_copied"
_NEVER_COPIED = (NOT_COPIED, "cannot_be_created", "not_described", "not_visible")


class PartitionAccount(NamedTuple):
    """One topic-partition.

    - `start`: the first source offset that is owed; None if unknown.
    - `other_log`: the id of the owed log, if it is not the log that was copied.
    """

    row: PartitionSnapshot
    owed: Owed
    start: int | None
    role: Role
    decision: LeftBehind | None = None
    other_log: str | None = None


def partition_accounts(picture: FailoverSnapshot) -> tuple[PartitionAccount, ...]:
    return tuple(_part(row, picture) for row in (*picture.partitions, *_hidden(picture)))


def _hidden(picture: FailoverSnapshot) -> Iterator[PartitionSnapshot]:
    """Yield one row without a name for the topics that the flow's principal cannot see."""
    if picture.not_visible:
        yield PartitionSnapshot(
            topic="",
            partition=-1,
            remote_topic="",
            position=None,
            code="not_visible",
            reason=picture.not_visible,
        )


def without_excluded(
    picture: FailoverSnapshot, parts: Iterable[PartitionAccount]
) -> FailoverSnapshot:
    """Return the picture without what is left behind or not copied, in groups too."""
    mine = list(parts)
    out = {(part.row.topic, part.row.partition) for part in mine if part.role != "replicated"}
    return dataclasses.replace(
        picture,
        partitions=tuple(part.row for part in mine if part.role == "replicated"),
        groups=tuple(_without(picture.groups, out, picture.left_behind)),
    )


def _part(row: PartitionSnapshot, picture: FailoverSnapshot) -> PartitionAccount:
    decision = decision_on(picture.left_behind, row.topic, row.partition)
    facts = _facts(row, picture.taken_at, is_left_behind=decision is not None)
    owed = evaluate(facts)
    if row.code == "not_visible":
        owed = owed._replace(state="not_visible")
    if row.source_end_at is not None and owed.certainty != "unknown":
        # Records written to the source since that observation are owed as well.
        owed = owed._replace(certainty="at_least")
    role: Role = "replicated"
    if decision is not None:
        role = "left_behind"
    elif row.code in _NEVER_COPIED:
        role = "not_copied"
    return PartitionAccount(row, owed, owed_from(facts), role, decision, other_log(facts))


def _facts(row: PartitionSnapshot, now: int, *, is_left_behind: bool) -> PartitionFacts:
    is_fresh = row.source_end is not None and row.source_end_at is None
    other = _another_log(row) if is_fresh and row.facts is None else None
    firsts = [first for first in (row.first, row.source_start) if first is not None]
    return PartitionFacts(
        topic=row.topic,
        partition=row.partition,
        position=row.position,
        first=max(firsts, default=None),
        end=row.source_end,
        observed_at=now if is_fresh else row.source_end_at,
        is_stopped=row.is_stopped,
        code=row.code,
        reason=row.reason or row.gap,
        gap=row.facts or other,
        # What was counted of another log is not owed.
        counted=None if other else row.counted,
        is_left_behind=is_left_behind,
    )


def with_lower_bound(owed: Owed) -> Owed:
    """Return what can be stated: an earlier figure gives only the lower bound."""
    return owed._replace(records=owed.least) if owed.certainty == "at_least" else owed


def _another_log(row: PartitionSnapshot) -> GapFacts | None:
    """Return a gap if the log ends below the copied position: it is another log."""
    if row.position is None or row.source_end is None or row.source_end >= row.position:
        return None
    return GapFacts(
        kind="recreated",
        position=row.position,
        first=row.source_start or 0,
        end=row.source_end,
    )


def _without(
    groups: Iterable[GroupSnapshot],
    out: set[tuple[str, int]],
    decisions: tuple[LeftBehind, ...],
) -> Iterator[GroupSnapshot]:
    for group in groups:
        kept = tuple(
            group_partition
            for group_partition in group.group_partitions
            if (group_partition.topic, group_partition.partition) not in out
            and decision_on(decisions, group_partition.topic, group_partition.partition) is None
        )
        yield dataclasses.replace(group, group_partitions=kept)


# The largest clock difference between the writers of positions and of the list.
MAX_CLOCK_SKEW_MS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicList:
    """How many partitions each topic of the source had; 0 if that could not be described.

    `at` (epoch ms): the list was the flow's plan at least until then.
    """

    partitions: Mapping[str, int]
    at: int


def deleted_partitions(
    listed: TopicList, written: Mapping[TopicPartition, int], is_selected: Callable[[str], bool]
) -> frozenset[TopicPartition]:
    """Return the copied partitions that the source had deleted by the time of the list.

    `written`: copied partitions, and when (epoch ms) their positions were last written. Topics that
    the flow does not select are ignored, because the list leaves out those without DESCRIBE.
    """
    if not listed.partitions:
        # Also for a flow that never planned.
        return frozenset()
    return frozenset(
        (topic, number)
        for (topic, number), at in written.items()
        if at + MAX_CLOCK_SKEW_MS <= listed.at
        and is_selected(topic)
        and _is_missing(listed.partitions.get(topic), number)
    )


def _is_missing(partitions: int | None, number: int) -> bool:
    return partitions is None or 0 < partitions <= number
