"""Gaps: stretches of source offsets that cannot be copied; what a person may decide of one.

The planner finds the facts, an operator decides on exactly these, and the planner applies the
decision only while they still hold: what was lost since was not decided on. Applied once, the facts
are others, so a decision that comes twice does nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from mirrors.domain.internal_topics.records import Position

GapKind = Literal[
    "deleted",
    "truncated",
    "recreated",
    "source_replaced",
    "remote_recreated",
    "remote_missing",
    "remote_written",
    "remote_truncated",
    "target_replaced",
    "positions_lost",
    "refused",
    "damaged",
]
Choice = Literal["accept", "restart"]
CHOICES: tuple[Choice, ...] = get_args(Choice)

# Which identity of a position differs, in this order.
_OF_MEMBERS: dict[str, GapKind] = {
    "source_cluster": "source_replaced",
    "target_cluster": "target_replaced",
    "source_topic_id": "recreated",
    "target_topic_id": "remote_recreated",
}
# The source holds other records than those that the position was counted in.
_NEW_SOURCE: tuple[GapKind, ...] = ("recreated", "source_replaced")
# Behind the position that follows, the same facts may come again.
_GONE_BACK: tuple[GapKind, ...] = ("truncated", "remote_truncated", "positions_lost")
# Records that are there and do not cross: the partition is tried again until they do, or until a
# person passes them by.
IN_THE_WAY: tuple[GapKind, ...] = ("refused", "damaged")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GapFacts:
    """`position` is the first upstream offset not copied; `first` and `end` what the source holds.

    `was` and `now` are the ids that differ, where an id does. `resets` counts earlier decisions
    after which the position may come back.
    Of `remote_written` position and end are offsets of the remote topic `now`: the first that
    somebody else wrote, and the one behind the last. Of `remote_truncated` the remote partition
    ends at `remote_end`, and `remote_next` is where our next batch belonged. Of `positions_lost` it
    belonged there as the position says, and yet copies of ours lie behind it, up to, not including,
    `remote_copied`. Of those in the way `behind` is the upstream offset behind them.
    """

    kind: GapKind
    position: int
    first: int | None
    end: int | None
    was: str = ""
    now: str = ""
    resets: int = 0
    remote_end: int | None = None
    remote_next: int | None = None
    remote_copied: int | None = None
    behind: int | None = None

    @property
    def lost(self) -> tuple[int, int] | None:
        """First and last upstream offset that is gone or in the way; None where no number says
        it."""
        if self.behind is not None:
            return self.position, self.behind - 1
        if self.kind == "deleted" and self.first is not None:
            return self.position, self.first - 1
        if self.kind == "truncated" and self.end is not None and self.end < self.position:
            return self.end, self.position - 1
        return None

    @property
    def lost_there(self) -> tuple[int, int] | None:
        """First and last offset of the remote partition that the target had and has no more."""
        if self.remote_end is None or self.remote_next is None:
            return None
        return self.remote_end, self.remote_next - 1

    @property
    def copied_there(self) -> tuple[int, int] | None:
        """First and last offset of the remote partition that hold copies, and no position says so;
        what else was written there lies among them."""
        if self.remote_copied is None or self.remote_next is None:
            return None
        return self.remote_next, self.remote_copied - 1

    @property
    def count(self) -> int | None:
        """How many offsets that is; holes and markers among them count too."""
        lost = self.lost or self.lost_there or self.copied_there
        return None if lost is None else lost[1] - lost[0] + 1

    @property
    def accepted_at(self) -> int | None:
        """Where copying goes on when it is accepted; None while that is not known."""
        if self.kind == "truncated":
            # Without a loss in numbers, what differs below the position would be left behind.
            return self.end if self.lost else None
        if self.kind == "deleted" or self.kind in _NEW_SOURCE:
            return self.first
        return self.position if self.behind is None else self.behind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """An operator's word on one partition's gap, with the facts as they were shown."""

    topic: str
    partition: int
    choice: Choice
    facts: GapFacts

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        return cls(**{**raw, "facts": GapFacts(**raw["facts"])})


def gap_of_range(position: int, first: int | None, end: int | None) -> GapKind | None:
    """What it is when a position lies outside what the source holds."""
    if first is None or end is None:
        return None
    if position < first:
        return "deleted"
    return "truncated" if position > end else None


def gap_of_remote(known: Position) -> GapFacts | None:
    """What a lane found of the remote partition and wrote down, until a person decides on it."""
    if known.remote_end is None or known.next_downstream is None:
        return None
    return remote_cut(
        known.position, known.resets, end=known.remote_end, belongs=known.next_downstream
    )


def gap_of_mark(known: Position) -> GapFacts | None:
    """What was found once and written down beside the position: it holds, whatever can be seen of
    it now, until a person has decided."""
    return gap_of_remote(known) or _of_positions(known) or gap_of_source(known)


def _of_positions(known: Position) -> GapFacts | None:
    if known.remote_copied is None or known.next_downstream is None:
        return None
    return positions_lost(
        known.position, known.resets, told=known.next_downstream, copied=known.remote_copied
    )


def gap_of_source(known: Position) -> GapFacts | None:
    """A source that a plan found cut below the position, and wrote down."""
    # A position that a person put below it is well again.
    if known.cut_at is None or known.cut_at > known.position:
        return None
    return GapFacts(
        kind="truncated",
        position=known.position,
        first=None,
        end=known.cut_at,
        resets=known.resets,
    )


def passes_by(decision: Decision, facts: GapFacts) -> bool:
    """Whether it was decided of exactly these that they are never copied. What the source holds
    elsewhere has nothing to do with that."""
    then = dataclasses.replace(decision.facts, first=facts.first, end=facts.end)
    return decision.choice == "accept" and facts.behind is not None and then == facts


def in_the_way(kind: GapKind, position: int, resets: int, *, behind: int) -> GapFacts:
    """Records from `position` up to, not including, `behind` that do not cross as they are."""
    return GapFacts(
        kind=kind, position=position, first=None, end=None, resets=resets, behind=behind
    )


def positions_lost(position: int, resets: int, *, told: int, copied: int) -> GapFacts:
    """A position that tells of copies below the remote offset `told`; there are some up to, not
    including, `copied`."""
    return GapFacts(
        kind="positions_lost",
        position=position,
        first=None,
        end=None,
        resets=resets,
        remote_next=told,
        remote_copied=copied,
    )


def remote_cut(position: int, resets: int, *, end: int, belongs: int) -> GapFacts:
    """A remote partition that ends at `end`, below the offset where our next batch belongs."""
    return GapFacts(
        kind="remote_truncated",
        position=position,
        first=None,
        end=None,
        resets=resets,
        remote_end=end,
        remote_next=belongs,
    )


def resets_after(decision: Decision, resets: int) -> int:
    """After which the same decision meets no gap any more, though the position may come back."""
    return resets + (decision.choice == "restart" or decision.facts.kind in _GONE_BACK)


def keeps_map(decision: Decision) -> bool:
    """Whether what was copied before the cut keeps its place in the map; behind it the later copy
    counts. Elsewhere offsets hold other records from now on, which asks for another map."""
    return decision.choice == "accept" and decision.facts.kind == "truncated"


def gap_of_generation(known: Position, now: Position) -> GapFacts | None:
    """The first difference between the topics that were copied and those that are there now."""
    for member, kind in _OF_MEMBERS.items():
        was, is_now = getattr(known, member), getattr(now, member)
        if was != is_now:
            return GapFacts(
                kind=kind,
                position=known.position,
                first=None,
                end=None,
                was=was,
                now=is_now,
                resets=known.resets,
            )
    return None


def resume_at(decision: Decision, now: GapFacts) -> int | None:
    """Where copying goes on by this decision; None when it was made on other facts."""
    then = decision.facts
    if (then.kind, now.kind) == ("remote_missing", "remote_recreated"):
        # Made again because of this very decision.
        now = dataclasses.replace(now, kind=then.kind, now=then.now)
    same = dataclasses.replace(now, first=then.first, end=then.end)
    if same != then or now.first is None:
        return None
    if decision.choice == "restart":
        return now.first
    if then.kind == "truncated":
        at = then.accepted_at
        # What was written since lies behind it.
        return at if at is not None and now.end is not None and now.first <= at <= now.end else None
    return now.accepted_at if now.accepted_at == then.accepted_at else None
