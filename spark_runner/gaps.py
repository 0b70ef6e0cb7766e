"""Gaps in a plan: their numbers, and what an operator decided of them; nothing is passed by alone.

A lane that stops a partition says why; the planner, which sees both clusters, finds the numbers. It
applies a decision by writing the position that follows from it, before a lane may read it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.continuity.generations import generation_of
from mirrors.domain.continuity.lost_runs import MARK_BODY, again_key
from mirrors.domain.gaps import Decision, GapFacts, GapKind, keeps_map, resets_after, resume_at
from mirrors.domain.records import Position
from spark_runner.draft import Draft
from spark_runner.positions import Ledger, Place
from spark_runner.starts import Ranges
from spark_runner.work import PartitionError

_SEEN_BY_LANES: tuple[GapKind, ...] = ("truncated", "remote_truncated", "positions_lost")


@dataclasses.dataclass(frozen=True)
class Orders:
    """What a plan has to reckon with besides the two clusters.

    `stopped`: partitions that lanes stopped by a gap, so that their positions rest. `passed`: those
    that rest before records which a person has decided to pass by.
    """

    decisions: tuple[Decision, ...] = ()
    stopped: Mapping[Place, PartitionError] = dataclasses.field(default_factory=dict)
    passed: Mapping[Place, GapFacts] = dataclasses.field(default_factory=dict)

    def makes_anew(self, topic: str, ledger: Ledger) -> bool:
        """Whether a person decided that this topic gets another remote topic, and it is open."""
        return any(
            decision.topic == topic
            and decision.facts.kind == "remote_missing"
            and (known := ledger.positions.get((topic, decision.partition))) is not None
            and (known.target_topic_id, known.position)
            == (decision.facts.was, decision.facts.position)
            for decision in self.decisions
        )


def find_gaps(
    draft: Draft, ledger: Ledger, held: Ranges, orders: Orders, *, missing: set[str], all_rest: bool
) -> None:
    """Stop what lies outside the source's ranges, and give every gap its numbers.

    `missing`: topics whose remote topic is gone. `all_rest`: nothing is copied now; otherwise a
    position may be older than what was copied, so only what a lane has stopped is looked at.
    """
    # First what lanes have seen: a log that was cut may have grown since.
    _rest(draft, orders)
    draft.check_ranges(held, ledger, orders.stopped.keys(), all_rest=all_rest)
    for place, error in list(draft.stopped.items()):
        known = ledger.positions.get(place)
        if place[0] in missing and known is not None:
            error = _remote_missing(error, known)
        if error.gap is not None:
            draft.stopped[place] = dataclasses.replace(error, gap=_numbered(error.gap, held, place))


def apply_decisions(
    draft: Draft, ledger: Ledger, decisions: Iterable[Decision], held: Ranges
) -> list[Position]:
    """The positions to write down; their partitions are work again.

    Once they are written the facts differ, so the same decision finds nothing to do.
    """
    rows = []
    for decision in decisions:
        place = (decision.topic, decision.partition)
        error, known = draft.stopped.get(place), ledger.positions.get(place)
        if error is None or error.gap is None or known is None or place not in draft.resting:
            continue
        now = dataclasses.replace(error.gap, end=held.end.get(place))
        at = resume_at(decision, now)
        if at is not None:
            row = draft.resume(place, at)
            resets = resets_after(decision, known.resets)
            kept = known.kept + keeps_map(decision)
            rows.append(dataclasses.replace(row, resets=resets, kept=kept, repeats=known.repeats))
    return rows


def pass_by(
    draft: Draft, passed: Mapping[Place, GapFacts], newest: Mapping[Place, Position]
) -> list[Position]:
    """The positions to write down, behind what is passed by; `newest` is as the target has it now.

    Where something before it was not committed after all, that is copied first. Where a plan that
    wrote it came to nothing, it is told again.
    """
    rows = []
    for place, facts in passed.items():
        work, known = draft.work.get(place), newest.get(place)
        if work is None or known is None or facts.behind is None:
            continue
        if known.position == facts.position:
            # Of another epoch of the leader than the last batch that crossed, perhaps: with that
            # one the broker would call the log truncated.
            row = dataclasses.replace(known, position=facts.behind, leader_epoch=None)
        elif known.position >= facts.behind:
            row = known
        else:
            continue
        draft.work[place] = dataclasses.replace(work, start=row.position)
        rows.append(row)
    return rows


def marks_of(rows: Iterable[Position], ledger: Ledger) -> list[tuple[bytes, bytes]]:
    """For the topic of runs: where the maps that are kept begin again."""
    return [
        (
            again_key(
                row.topic, row.partition, generation_of(row), row.target_topic_id, row.position
            ).to_bytes(),
            MARK_BODY,
        )
        for row in rows
        if row.kept > ledger.positions[row.topic, row.partition].kept
    ]


def _rest(draft: Draft, orders: Orders) -> None:
    """What a lane alone has seen: a log that was replaced behind what was read or written."""
    for place, error in orders.stopped.items():
        if place in draft.work and error.gap is not None and error.gap.kind in _SEEN_BY_LANES:
            draft.rest(place, error)


def _remote_missing(error: PartitionError, known: Position) -> PartitionError:
    facts = GapFacts(
        kind="remote_missing",
        position=known.position,
        first=None,
        end=None,
        was=known.target_topic_id,
        resets=known.resets,
    )
    return dataclasses.replace(
        error, state="gap", code="remote_missing", offset=known.position, gap=facts
    )


def _numbered(facts: GapFacts, held: Ranges, place: Place) -> GapFacts:
    """A truncated log grows again; where it was cut stays what it is."""
    end = facts.end if facts.kind == "truncated" else held.end.get(place)
    return dataclasses.replace(facts, first=held.first.get(place), end=end)
