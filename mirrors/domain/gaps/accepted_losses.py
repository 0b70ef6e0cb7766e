"""Records that the source holds and the target lacks, because a person decided so.

- The target lost copies (its topic was deleted, recreated, truncated, or is on another cluster), or
  rejected a record, and the decision was to continue without them.
- A person moved a position forward, over records that were not copied.

They are not owed: nothing will copy them. Every run names them, so that a loss that was accepted is
never forgotten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from mirrors.domain.formatting import plural
from mirrors.domain.gaps.lost_ranges import (
    LOST_COPIES,
    UNCOPYABLE,
    Choice,
    GapFacts,
    GapKind,
    uncopyable,
)

# The partition began again with another log, on the source or the target.
_OTHER_LOG: tuple[GapKind, ...] = (
    "recreated",
    "source_replaced",
    "remote_missing",
    "remote_recreated",
    "target_replaced",
)


class AppliedDecision(NamedTuple):
    """A decision on a gap that was applied. `at`: epoch ms."""

    topic: str
    partition: int
    choice: Choice
    facts: GapFacts
    who: str
    why: str
    at: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class AcceptedLoss:
    """What one decision permanently leaves out, of the partitions of one topic.

    `offsets`: an upper bound of the records; None if the number is unknown.
    """

    topic: str
    partitions: tuple[int, ...]
    offsets: int | None
    who: str
    why: str
    at: int

    def sentence(self, source: str, target: str) -> str:
        name = self.topic
        if len(self.partitions) == 1:
            name += f"-{self.partitions[0]}"
        else:
            name += f" ({plural(len(self.partitions), 'partition')})"
        count = (
            "an unknown number of records"
            if self.offsets is None
            else f"at most {plural(self.offsets, 'record')}"
        )
        why = f" ({self.why})" if self.why else ""
        return (
            f"{name}: {count} of {source} are not on {target} and will not be replicated, by "
            f"decision of {self.who}{why}."
        )


def skipped_by_move(position: int, to: int) -> GapFacts:
    """Return the facts of a position that was moved forward over records."""
    return uncopyable("refused", position, 0, behind=to)


def accepted_offsets(facts: GapFacts) -> int | None:
    """Return how many source offsets an accepted gap leaves out that the source still held.

    0 if the source itself had lost them; None if unknown.
    """
    if facts.kind in UNCOPYABLE:
        return None if facts.behind is None else max(0, facts.behind - facts.position)
    if facts.kind not in LOST_COPIES:
        return 0
    if facts.kind == "remote_truncated":
        return facts.count
    return None if facts.first is None else max(0, facts.position - facts.first)


def accepted_losses(decisions: Iterable[AppliedDecision]) -> list[AcceptedLoss]:
    """Return the losses that hold now. `decisions`: in the order in which they were applied.

    A restart copies everything again. After a gap of another log, only that gap's decision counts.
    """
    by_partition: dict[tuple[str, int], list[AppliedDecision]] = {}
    for decision in decisions:
        mine = by_partition.setdefault((decision.topic, decision.partition), [])
        if decision.choice == "restart" or decision.facts.kind in _OTHER_LOG:
            mine.clear()
        if decision.choice == "accept" and accepted_offsets(decision.facts) != 0:
            mine.append(decision)
    together: dict[tuple[str, str, str], list[AppliedDecision]] = {}
    for rows in by_partition.values():
        for row in rows:
            together.setdefault((row.topic, row.who, row.why), []).append(row)
    return [_loss(rows) for _, rows in sorted(together.items())]


def _loss(rows: list[AppliedDecision]) -> AcceptedLoss:
    counts = [accepted_offsets(row.facts) for row in rows]
    known = [count for count in counts if count is not None]
    return AcceptedLoss(
        topic=rows[0].topic,
        partitions=tuple(sorted({row.partition for row in rows})),
        offsets=sum(known) if len(known) == len(counts) else None,
        who=rows[0].who,
        why=rows[0].why,
        at=max(row.at for row in rows),
    )
