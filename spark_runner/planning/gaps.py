"""Gaps in a plan: their numbers, and what an operator decided of them; nothing is passed by alone.

A lane that stops a partition says why; the planner, which sees both clusters, finds the numbers. It
applies a decision by writing the position that follows from it, before a lane may read it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mirrors.domain.gaps.lost_ranges import (
    Decision,
    GapFacts,
    GapKind,
    gap_of_mark,
    keeps_map,
    resets_after,
    resume_at,
)
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.truncation_marks import MARK_BODY, again_key
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.plan import PlanBuilder
from spark_runner.planning.source_truncation import truncated_logs
from spark_runner.planning.start_offsets import Ranges
from spark_runner.positions.restore import find_lost_positions, restore_positions
from spark_runner.positions.topic import Place, StoredPositions

_FOUND_BY_LANES: tuple[GapKind, ...] = ("truncated", "remote_truncated", "positions_lost")


@dataclasses.dataclass(frozen=True)
class PlanContext:
    """What a plan has to reckon with besides the two clusters.

    `stopped`: partitions that lanes stopped by a gap, so that their positions rest. `passed`: those
    that rest before records which a person has decided to pass by.
    """

    decisions: tuple[Decision, ...] = ()
    stopped: Mapping[Place, PartitionError] = dataclasses.field(default_factory=dict)
    skipped: Mapping[Place, GapFacts] = dataclasses.field(default_factory=dict)

    def recreates_remote_topic(self, topic: str, stored: StoredPositions) -> bool:
        """Whether a person decided that this topic gets another remote topic, and it is open."""
        return any(
            decision.topic == topic
            and decision.facts.kind == "remote_missing"
            and (known := stored.positions.get((topic, decision.partition))) is not None
            and (known.target_topic_id, known.position)
            == (decision.facts.was, decision.facts.position)
            for decision in self.decisions
        )


def find_gaps(
    builder: PlanBuilder,
    stored: StoredPositions,
    held: Ranges,
    context: PlanContext,
    *,
    missing: set[str],
    is_idle: bool,
) -> None:
    """Stop what lies outside the source's ranges, and give every gap its numbers.

    `missing`: topics whose remote topic is gone. `is_idle`: nothing is copied now; otherwise a
    position may be older than what was copied, so only what a lane has stopped is looked at.
    """
    # First what lanes have seen: a log that was cut may have grown since.
    _stop_truncated(builder, context)
    builder.check_ranges(held, stored, context.stopped.keys(), is_idle=is_idle)
    for place, error in list(builder.stopped.items()):
        known = stored.positions.get(place)
        if place[0] in missing and known is not None:
            error = _remote_missing(error, known)
        if error.gap is not None:
            builder.stopped[place] = dataclasses.replace(
                error, gap=_with_range(error.gap, held, place)
            )


def apply_decisions(
    builder: PlanBuilder, stored: StoredPositions, decisions: Iterable[Decision], held: Ranges
) -> list[Position]:
    """The positions to write down; their partitions are work again.

    Once they are written the facts differ, so the same decision finds nothing to do.
    """
    rows = []
    for decision in decisions:
        place = (decision.topic, decision.partition)
        error, known = builder.stopped.get(place), stored.positions.get(place)
        if error is None or error.gap is None or known is None or place not in builder.stopped_work:
            continue
        now = dataclasses.replace(error.gap, end=held.end.get(place))
        at = resume_at(decision, now)
        if at is not None:
            row = builder.resume(place, at)
            resets = resets_after(decision, known.resets)
            kept = known.kept + keeps_map(decision)
            rows.append(dataclasses.replace(row, resets=resets, kept=kept, repeats=known.repeats))
    return rows


def skip_ranges(
    builder: PlanBuilder, skipped: Mapping[Place, GapFacts], newest: Mapping[Place, Position]
) -> list[Position]:
    """The positions to write down, behind what is passed by; `newest` is as the target has it now.

    Where something before it was not committed after all, that is copied first. Where a plan that
    wrote it came to nothing, it is told again.
    """
    rows = []
    for place, facts in skipped.items():
        work, known = builder.work.get(place), newest.get(place)
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
        builder.work[place] = dataclasses.replace(work, start=row.position)
        rows.append(row)
    return rows


def truncation_marks(
    rows: Iterable[Position], stored: StoredPositions
) -> list[tuple[bytes, bytes]]:
    """For the topic of runs: where the maps that are kept begin again."""
    return [
        (
            again_key(
                row.topic, row.partition, generation_of(row), row.target_topic_id, row.position
            ).to_bytes(),
            MARK_BODY,
        )
        for row in rows
        if row.kept > stored.positions[row.topic, row.partition].kept
    ]


def _stop_truncated(builder: PlanBuilder, context: PlanContext) -> None:
    """What a lane alone has seen: a log that was replaced behind what was read or written."""
    for place, error in context.stopped.items():
        if place in builder.work and error.gap is not None and error.gap.kind in _FOUND_BY_LANES:
            builder.stop_with(place, error)


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


def _with_range(facts: GapFacts, held: Ranges, place: Place) -> GapFacts:
    """A truncated log grows again; where it was cut stays what it is."""
    end = facts.end if facts.kind == "truncated" else held.end.get(place)
    return dataclasses.replace(facts, first=held.first.get(place), end=end)


DEADLINE_S = 10.0
RUNS_S = 60.0


@dataclasses.dataclass(frozen=True)
class ResolvedGaps:
    """`rows`: where partitions go on; `marked`: those that stay stopped, with what was found."""

    rows: list[Position]
    marked: list[Position]


class GapResolver:
    """One for a job; `read` tells the positions as they are on the target now."""

    def __init__(
        self,
        source: ClusterSpec,
        target: Admin,
        runs_topic: str,
        read: Callable[[], StoredPositions],
    ) -> None:
        self._source = source
        self._target = target
        self._runs_topic = runs_topic
        self._read = read

    def resolve(
        self,
        builder: PlanBuilder,
        stored: StoredPositions,
        held: Ranges,
        context: PlanContext,
        *,
        missing: set[str],
        is_idle: bool,
    ) -> ResolvedGaps:
        """As in `find_gaps`."""
        cut, whole = truncated_logs(
            self._source, builder, stored, is_idle=is_idle, deadline_s=DEADLINE_S
        )
        healed = {(row.topic, row.partition) for row in whole}
        reported = {**cut, **context.stopped}
        stopped = {place: error for place, error in reported.items() if place not in healed}
        context = dataclasses.replace(context, stopped=stopped)
        _resume(builder, whole)
        find_gaps(builder, stored, held, context, missing=missing, is_idle=is_idle)
        found = _found(builder)
        # A slice knows better than this plan what it has committed last.
        newest = stored.with_rows(
            self._read().positions.values() if _is_news(found, stored) else ()
        )
        known = newest.positions
        rows = [*whole, *self._put_back(builder, found, known)]
        rows += apply_decisions(builder, stored, context.decisions, held)
        if context.skipped:
            rows += skip_ranges(builder, context.skipped, self._read().positions)
        marked = [
            dataclasses.replace(row, **_mark_of(facts))
            for place, facts in _found(builder).items()
            if (row := known.get(place)) is not None
            and _matches(row, facts)
            and _mark(row) != _mark_of(facts)
        ]
        return ResolvedGaps(rows, marked)

    def find_lost_positions(
        self, builder: PlanBuilder, rows: Mapping[Place, Position]
    ) -> dict[Place, Position]:
        """Of rows of partitions met for the first time those that are not, as they are then."""
        if not rows or not builder.target_has(self._runs_topic):
            return {}
        remote = {place: (builder.work[place].remote_topic, place[1]) for place in rows}
        return find_lost_positions(self._target, self._runs_topic, rows, remote, deadline_s=RUNS_S)

    def _put_back(
        self, builder: PlanBuilder, found: Mapping[Place, GapFacts], known: Mapping[Place, Position]
    ) -> list[Position]:
        if not builder.target_has(self._runs_topic):
            return []
        lost = {
            place: (known[place], facts)
            for place, facts in found.items()
            if facts.kind == "positions_lost" and place in known and _matches(known[place], facts)
        }
        rows = restore_positions(self._target, self._runs_topic, lost, deadline_s=RUNS_S)
        _resume(builder, rows)
        return rows


def _resume(builder: PlanBuilder, rows: Iterable[Position]) -> None:
    for row in rows:
        builder.resume((row.topic, row.partition), row.position)


def _found(builder: PlanBuilder) -> dict[Place, GapFacts]:
    """Gaps that cannot be seen again at any time, once their numbers are known."""
    return {
        place: error.gap
        for place, error in builder.stopped.items()
        if error.gap is not None and place in builder.stopped_work and _mark_of(error.gap)
    }


def _is_news(found: Mapping[Place, GapFacts], stored: StoredPositions) -> bool:
    return any(
        facts.kind == "positions_lost" or _mark(stored.positions[place]) != _mark_of(facts)
        for place, facts in found.items()
        if place in stored.positions
    )


def _matches(known: Position, facts: GapFacts) -> bool:
    """Whether the row is that of which the facts were found."""
    reported = facts.remote_next
    return known.position == facts.position and reported in (None, known.next_downstream)


def _mark_of(facts: GapFacts) -> dict[str, Any]:
    if facts.kind == "positions_lost":
        return {"remote_copied": facts.remote_copied}
    if facts.kind == "truncated" and facts.end is not None:
        return {"cut_at": facts.end}
    return {}


def _mark(known: Position) -> dict[str, Any]:
    facts = gap_of_mark(known)
    return {} if facts is None else _mark_of(facts)
