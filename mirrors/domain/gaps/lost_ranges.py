"""Gaps: ranges of source offsets that cannot be copied, and what a person may decide on each.

The planner finds the facts and an operator decides on exactly these. The planner applies the
decision only while the facts still hold: what was lost later was not decided on. After it is
applied the facts differ, so a repeated decision has no effect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from mirrors.domain.internal_topics.records import Position, RoutePosition

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

# The identities of a position, in the order in which they are compared.
_OF_MEMBERS: dict[str, GapKind] = {
    "source_cluster": "source_replaced",
    "target_cluster": "target_replaced",
    "source_topic_id": "recreated",
    "target_topic_id": "remote_recreated",
}
# The source holds other records than the ones to which the position refers.
_NEW_SOURCE: tuple[GapKind, ...] = ("recreated", "source_replaced")
# The target holds none of the copies.
OTHER_TARGET: tuple[GapKind, ...] = ("remote_recreated", "remote_missing", "target_replaced")
# The target lost records that were copied.
LOST_COPIES: tuple[GapKind, ...] = (*OTHER_TARGET, "remote_truncated")
# After the position that follows the decision, the same facts may occur again.
_MAY_RECUR: tuple[GapKind, ...] = ("truncated", "remote_truncated", "positions_lost")
# Records that exist but cannot be copied. The partition is retried until they can, or until a
# person skips them.
UNCOPYABLE: tuple[GapKind, ...] = ("refused", "damaged")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GapFacts:
    """The facts of one gap.

    - `position`: the first source offset that is not copied. `first` and `end`: what the source
      holds.
    - `was` and `now`: the ids that differ, if any. `resets`: the number of earlier decisions after
      which the position may return.
    - For `remote_written`, position and end are offsets of the remote topic `now`: the first
      foreign record, and the offset after the last. `route`: its name, if a rule names it.
    - For `remote_truncated` the remote partition ends at `remote_end`; `remote_next` is the offset
      at which the next batch belonged.
    - For `positions_lost`, `remote_next` comes from the position, but the flow's own copies follow
      it, up to `remote_copied` (exclusive).
    - For refused and damaged records `behind` is the source offset after them.
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
    route: str = ""

    @property
    def lost(self) -> tuple[int, int] | None:
        """First and last source offset that is deleted or cannot be copied; None if unknown."""
        if self.behind is not None:
            return self.position, self.behind - 1
        if self.kind == "deleted" and self.first is not None:
            return self.position, self.first - 1
        if self.kind == "truncated" and self.end is not None and self.end < self.position:
            return self.end, self.position - 1
        return None

    @property
    def lost_there(self) -> tuple[int, int] | None:
        """First and last offset of the remote partition that the target lost."""
        if self.remote_end is None or self.remote_next is None:
            return None
        return self.remote_end, self.remote_next - 1

    @property
    def copied_there(self) -> tuple[int, int] | None:
        """First and last remote offset of copies that no position covers.

        Foreign records may be among them.
        """
        if self.remote_copied is None or self.remote_next is None:
            return None
        return self.remote_next, self.remote_copied - 1

    @property
    def count(self) -> int | None:
        """How many offsets that is, including transaction markers and compacted records."""
        lost = self.lost or self.lost_there or self.copied_there
        return None if lost is None else lost[1] - lost[0] + 1

    @property
    def accepted_at(self) -> int | None:
        """Where copying continues if the gap is accepted; None while unknown."""
        if self.kind == "truncated":
            # Without known numbers, what differs below the position would be skipped.
            return self.end if self.lost else None
        if self.kind == "deleted" or self.kind in _NEW_SOURCE:
            return self.first
        return self.position if self.behind is None else self.behind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """An operator's decision on one partition's gap, with the facts as they were shown."""

    topic: str
    partition: int
    choice: Choice
    facts: GapFacts

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        return cls(**{**raw, "facts": GapFacts(**raw["facts"])})


def gap_of_range(position: int, first: int | None, end: int | None) -> GapKind | None:
    """Return the gap kind if a position is outside the source's offsets."""
    if first is None or end is None:
        return None
    if position < first:
        return "deleted"
    return "truncated" if position > end else None


def describe_range_gap(name: str, source: str, position: int, first: int, end: int) -> str | None:
    """What is missing if a position is outside the source's range; else None."""
    if position < first:
        return (
            f"{name} on {source} now begins at {first}: offsets {position} to {first - 1} were "
            "deleted (retention or a request) before they were copied. Nothing was skipped."
        )
    if position > end:
        return (
            f"{name} on {source} now ends at {end}, before the position {position}: the source "
            "lost records that were already copied. Nothing was skipped."
        )
    return None


def gap_of_remote(known: Position) -> GapFacts | None:
    """Return the stored gap of the remote partition, as the engine found it."""
    if known.remote_end is None or known.next_downstream is None:
        return None
    return remote_truncation(
        known.position, known.resets, end=known.remote_end, belongs=known.next_downstream
    )


def stored_gap(known: Position) -> GapFacts | None:
    """Return the gap stored with the position, which holds until a person decides."""
    return gap_of_remote(known) or _of_positions(known) or gap_of_source(known)


def _of_positions(known: Position) -> GapFacts | None:
    if known.remote_copied is None or known.next_downstream is None:
        return None
    return positions_lost(
        known.position, known.resets, covered=known.next_downstream, copied=known.remote_copied
    )


def gap_of_source(known: Position) -> GapFacts | None:
    """Return the gap of a source that a plan found truncated below the position, and stored."""
    # A position that a person set below it is valid again.
    if known.cut_at is None or known.cut_at > known.position:
        return None
    return GapFacts(
        kind="truncated",
        position=known.position,
        first=None,
        end=known.cut_at,
        resets=known.resets,
    )


def skips_exactly(decision: Decision, facts: GapFacts) -> bool:
    """Return whether the decision skips exactly these records, whatever else the source holds."""
    then = dataclasses.replace(decision.facts, first=facts.first, end=facts.end)
    return decision.choice == "accept" and facts.behind is not None and then == facts


def uncopyable(kind: GapKind, position: int, resets: int, *, behind: int) -> GapFacts:
    """Return the facts of records from `position` to `behind` (exclusive) that cannot be copied."""
    return GapFacts(
        kind=kind, position=position, first=None, end=None, resets=resets, behind=behind
    )


def positions_lost(position: int, resets: int, *, covered: int, copied: int) -> GapFacts:
    """Return the facts of a position that is behind its own copies.

    It covers copies below the remote offset `covered`, but there are more, up to `copied`
    (exclusive).
    """
    return GapFacts(
        kind="positions_lost",
        position=position,
        first=None,
        end=None,
        resets=resets,
        remote_next=covered,
        remote_copied=copied,
    )


def remote_truncation(position: int, resets: int, *, end: int, belongs: int) -> GapFacts:
    """Return the facts of a remote partition that ends at `end`, below the next batch's offset."""
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
    """Return the number of resets with which the same decision meets no gap again."""
    return resets + (decision.choice == "restart" or decision.facts.kind in _MAY_RECUR)


def keeps_map(decision: Decision) -> bool:
    """Return whether the offset map stays valid below the truncation; above it later runs count.

    After other decisions the offsets refer to other records, so a new map begins.
    """
    return decision.choice == "accept" and decision.facts.kind == "truncated"


def gap_of_generation(known: Position, now: Position) -> GapFacts | None:
    """Return the first difference between the copied topics and the present ones."""
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
    if (route := changed_route(known, now)) is not None:
        return GapFacts(
            kind="remote_recreated",
            position=known.position,
            first=None,
            end=None,
            was=route[0].topic_id,
            now=route[1].topic_id,
            resets=known.resets,
        )
    return None


def changed_route(known: Position, now: Position) -> tuple[RoutePosition, RoutePosition] | None:
    """Return the first route whose topic is another one now, as it was and as it is."""
    was = {row.topic: row for row in known.routes}
    for row in now.routes:
        before = was.get(row.topic)
        if before is not None and before.topic_id != row.topic_id and before.map_end is not None:
            return before, row
    return None


def resume_at(decision: Decision, now: GapFacts) -> int | None:
    """Return where copying continues by this decision; None if it was made on other facts."""
    then = decision.facts
    if (then.kind, now.kind) == ("remote_missing", "remote_recreated"):
        # Recreated because of this decision.
        now = dataclasses.replace(now, kind=then.kind, now=then.now)
    same = dataclasses.replace(now, first=then.first, end=then.end)
    if same != then or now.first is None:
        return None
    if decision.choice == "restart":
        return now.first
    if then.kind == "truncated":
        at = then.accepted_at
        # Records written since follow it.
        return at if at is not None and now.end is not None and now.first <= at <= now.end else None
    return now.accepted_at if now.accepted_at == then.accepted_at else None
