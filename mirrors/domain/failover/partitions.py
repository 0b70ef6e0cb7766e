"""Which topic-partitions take part in a failover, and what each of them owes by the account.

A. Every topic-partition that the flow's filters select on the source is one part, copied or not.
B. One that a person left behind by decision takes no part, whatever its state.
C. One that is not copied at all takes no part either, but blocks until somebody decides on it.
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
from mirrors.domain.failover.left_behind import LeftBehind, decision_on
from mirrors.domain.failover.plan_types import FailoverPicture, GroupPicture, PartitionPicture
from mirrors.domain.gaps.lost_ranges import GapFacts

Role = Literal["replicated", "not_copied", "left_behind"]
# Of a topic that the filters select, and that no plan of the flow has named yet.
NOT_COPIED = "not_copied"
_NEVER_COPIED = (NOT_COPIED, "cannot_be_created", "not_described", "not_visible")


class Part(NamedTuple):
    """One topic-partition. `start`: the first source offset that is owed, None where unknown.

    `other_log`: the id of the log that is owed where it is not the one that was copied.
    """

    row: PartitionPicture
    owed: Owed
    start: int | None
    role: Role
    decision: LeftBehind | None = None
    other_log: str | None = None


def parts_of(picture: FailoverPicture) -> tuple[Part, ...]:
    return tuple(_part(row, picture) for row in (*picture.partitions, *_hidden(picture)))


def _hidden(picture: FailoverPicture) -> Iterator[PartitionPicture]:
    """One row, without a name, stands for the topics that our principal cannot see."""
    if picture.not_visible:
        yield PartitionPicture(
            topic="",
            partition=-1,
            remote_topic="",
            position=None,
            code="not_visible",
            reason=picture.not_visible,
        )


def taking_part(picture: FailoverPicture, parts: Iterable[Part]) -> FailoverPicture:
    """The same picture without what is left behind or not copied, in groups too."""
    mine = list(parts)
    out = {(part.row.topic, part.row.partition) for part in mine if part.role != "replicated"}
    return dataclasses.replace(
        picture,
        partitions=tuple(part.row for part in mine if part.role == "replicated"),
        groups=tuple(_without(picture.groups, out, picture.left_behind)),
    )


def _part(row: PartitionPicture, picture: FailoverPicture) -> Part:
    decision = decision_on(picture.left_behind, row.topic, row.partition)
    facts = _facts(row, picture.taken_at, is_left_behind=decision is not None)
    owed = evaluate(facts)
    if row.code == "not_visible":
        owed = owed._replace(state="not_visible")
    if row.source_end_at is not None and owed.certainty != "unknown":
        # What came to the source since that observation is owed as well.
        owed = owed._replace(certainty="at_least")
    role: Role = "replicated"
    if decision is not None:
        role = "left_behind"
    elif row.code in _NEVER_COPIED:
        role = "not_copied"
    return Part(row, owed, owed_from(facts), role, decision, other_log(facts))


def _facts(row: PartitionPicture, now: int, *, is_left_behind: bool) -> PartitionFacts:
    is_fresh = row.source_end is not None and row.source_end_at is None
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
        gap=row.facts or _another_log(row) if is_fresh else row.facts,
        is_dense=row.is_dense,
        is_left_behind=is_left_behind,
    )


def stated(owed: Owed) -> Owed:
    """What may be said of it: of an earlier figure only the lower bound is left."""
    return owed._replace(records=owed.least) if owed.certainty == "at_least" else owed


def _another_log(row: PartitionPicture) -> GapFacts | None:
    """A log that ends below what was copied of it is another one: all that it holds is owed."""
    if row.position is None or row.source_end is None or row.source_end >= row.position:
        return None
    return GapFacts(
        kind="recreated",
        position=row.position,
        first=row.source_start or 0,
        end=row.source_end,
    )


def _without(
    groups: Iterable[GroupPicture],
    out: set[tuple[str, int]],
    decisions: tuple[LeftBehind, ...],
) -> Iterator[GroupPicture]:
    for group in groups:
        kept = tuple(
            place
            for place in group.places
            if (place.topic, place.partition) not in out
            and decision_on(decisions, place.topic, place.partition) is None
        )
        yield dataclasses.replace(group, places=kept)


Place = tuple[str, int]

# So far apart may the clocks be of those who wrote positions and of who made the list.
CLOCKS_MS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
    """How many partitions each topic of the source had, 0 where that could not be seen.

    `at` (epoch ms): until then at least the list was that of the flow's plan.
    """

    partitions: Mapping[str, int]
    at: int


def gone_by_then(
    listed: Listed, written: Mapping[Place, int], is_selected: Callable[[str], bool]
) -> frozenset[Place]:
    """`written`: copied partitions, and when (epoch ms) their positions were last written down.

    Of topics that the flow does not select those that could not be described are not in the list.
    """
    if not listed.partitions:
        # Of a flow that never planned, too.
        return frozenset()
    return frozenset(
        (topic, number)
        for (topic, number), at in written.items()
        if at + CLOCKS_MS <= listed.at
        and is_selected(topic)
        and _is_missing(listed.partitions.get(topic), number)
    )


def _is_missing(partitions: int | None, number: int) -> bool:
    return partitions is None or 0 < partitions <= number
