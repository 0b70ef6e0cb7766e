"""Gaps in a plan: their offset ranges, and decisions. Nothing is skipped without a decision.

A lane that stops a partition gives the reason. The planner, which sees both clusters, finds the
ranges. It applies a decision by writing the resulting position before a lane may read it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.gaps.lost_ranges import (
    Decision,
    GapFacts,
    GapKind,
    keeps_map,
    resets_after,
    resume_at,
    stored_gap,
)
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.truncation_marks import MARK_BODY, restart_key
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.plan import PlanBuilder
from spark_runner.planning.source_truncation import truncated_logs
from spark_runner.planning.start_offsets import SourceRanges
from spark_runner.positions.restore import find_lost_positions, restore_positions
from spark_runner.positions.topic import StoredPositions

_FOUND_BY_LANES: tuple[GapKind, ...] = ("truncated", "remote_truncated", "positions_lost")


@dataclasses.dataclass(frozen=True)
class PlanContext:
    """Input of a plan besides the state of both clusters.

    `stopped`: partitions that lanes stopped by a gap, so that their positions do not change.
    `skipped`: partitions stopped before records that a decision skips.
    """

    decisions: tuple[Decision, ...] = ()
    stopped: Mapping[TopicPartition, PartitionError] = dataclasses.field(default_factory=dict)
    skipped: Mapping[TopicPartition, GapFacts] = dataclasses.field(default_factory=dict)

    def recreates_remote_topic(self, topic: str, stored: StoredPositions) -> bool:
        """Whether an open decision of an operator gives this topic a new remote topic."""
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
    source_ranges: SourceRanges,
    context: PlanContext,
    *,
    missing: set[str],
    is_idle: bool,
) -> None:
    """Stop partitions outside the source's ranges, and give every gap its range.

    `missing`: topics whose remote topic was deleted. `is_idle`: nothing is copied now. Otherwise a
    position may be older than what was copied, so only partitions stopped by a lane are checked.
    """
    # Gaps found by lanes first: a truncated log may have grown since.
    _stop_truncated(builder, context)
    builder.check_ranges(source_ranges, stored, context.stopped.keys(), is_idle=is_idle)
    for tp, error in list(builder.stopped.items()):
        known = stored.positions.get(tp)
        if tp[0] in missing and known is not None:
            error = _remote_missing(error, known)
        if error.gap is not None:
            builder.stopped[tp] = dataclasses.replace(
                error, gap=_with_range(error.gap, source_ranges, tp)
            )


def apply_decisions(
    builder: PlanBuilder,
    stored: StoredPositions,
    decisions: Iterable[Decision],
    source_ranges: SourceRanges,
) -> list[Position]:
    """The positions to write. Their partitions have work again.

    Writing them changes the facts, so the same decision then has no effect.
    """
    rows = []
    for decision in decisions:
        tp = (decision.topic, decision.partition)
        error, known = builder.stopped.get(tp), stored.positions.get(tp)
        if error is None or error.gap is None or known is None or tp not in builder.stopped_work:
            continue
        now = dataclasses.replace(error.gap, end=source_ranges.end.get(tp))
        at = resume_at(decision, now)
        if at is not None:
            row = builder.resume(tp, at)
            resets = resets_after(decision, known.resets)
            kept = known.kept + keeps_map(decision)
            row = dataclasses.replace(row, repeats=known.repeats, dead_letters=known.dead_letters)
            rows.append(dataclasses.replace(row, resets=resets, kept=kept))
    return rows


def skip_ranges(
    builder: PlanBuilder,
    skipped: Mapping[TopicPartition, GapFacts],
    newest: Mapping[TopicPartition, Position],
) -> list[Position]:
    """The positions to write, after the skipped records. `newest` has the target's present
    positions.

    A position below the skipped range is copied first. A position that an earlier, failed plan
    wrote is returned again.
    """
    rows = []
    for tp, facts in skipped.items():
        work, known = builder.work.get(tp), newest.get(tp)
        if work is None or known is None or facts.behind is None:
            continue
        if known.position == facts.position:
            # The records from there on may have another leader epoch than the last replicated
            # batch. With the old epoch, the broker would report a truncation.
            row = dataclasses.replace(known, position=facts.behind, leader_epoch=None)
        elif known.position >= facts.behind:
            row = known
        else:
            continue
        builder.work[tp] = dataclasses.replace(work, start=row.position)
        rows.append(row)
    return rows


def truncation_marks(
    rows: Iterable[Position], stored: StoredPositions
) -> list[tuple[bytes, bytes]]:
    """Records for the topic of runs: where the maps that are kept start again."""
    return [
        (
            restart_key(
                row.topic, row.partition, generation_of(row, into), into, row.position
            ).to_bytes(),
            MARK_BODY,
        )
        for row in rows
        if row.kept > stored.positions[row.topic, row.partition].kept
        for into in (row.target_topic_id, *(route.topic_id for route in row.routes))
    ]


def _stop_truncated(builder: PlanBuilder, context: PlanContext) -> None:
    """Stop partitions with gaps that only a lane can detect: the log was replaced or truncated."""
    for tp, error in context.stopped.items():
        if tp in builder.work and error.gap is not None and error.gap.kind in _FOUND_BY_LANES:
            builder.stop_with(tp, error)


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


def _with_range(facts: GapFacts, source_ranges: SourceRanges, tp: TopicPartition) -> GapFacts:
    """Add the source's range. The end of a truncated log is where it was truncated, not where it
    ends after growing again."""
    end = facts.end if facts.kind == "truncated" else source_ranges.end.get(tp)
    return dataclasses.replace(facts, first=source_ranges.first.get(tp), end=end)


DEADLINE_S = 10.0
RUNS_S = 60.0


@dataclasses.dataclass(frozen=True)
class ResolvedGaps:
    """`rows`: positions to resume from. `marked`: stopped positions, with the facts found."""

    rows: list[Position]
    marked: list[Position]


class GapResolver:
    """One per job. `read` returns the positions that the target has now."""

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
        source_ranges: SourceRanges,
        context: PlanContext,
        *,
        missing: set[str],
        is_idle: bool,
    ) -> ResolvedGaps:
        """Resolve gaps; parameters as in `find_gaps`."""
        cut, whole = truncated_logs(
            self._source, builder, stored, is_idle=is_idle, deadline_s=DEADLINE_S
        )
        healed = {(row.topic, row.partition) for row in whole}
        reported = {**cut, **context.stopped}
        stopped = {tp: error for tp, error in reported.items() if tp not in healed}
        context = dataclasses.replace(context, stopped=stopped)
        _resume(builder, whole)
        find_gaps(builder, stored, source_ranges, context, missing=missing, is_idle=is_idle)
        found = _found(builder)
        # A slice knows its last commit better than this plan.
        newest = stored.with_rows(self._read().positions.values() if _is_new(found, stored) else ())
        known = newest.positions
        rows = [*whole, *self._restore_positions(builder, found, known)]
        rows += apply_decisions(builder, stored, context.decisions, source_ranges)
        if context.skipped:
            rows += skip_ranges(builder, context.skipped, self._read().positions)
        marked = [
            dataclasses.replace(row, **_mark_of(facts))
            for tp, facts in _found(builder).items()
            if (row := known.get(tp)) is not None
            and _matches(row, facts)
            and _mark(row) != _mark_of(facts)
        ]
        return ResolvedGaps(rows, marked)

    def find_lost_positions(
        self, builder: PlanBuilder, rows: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, Position]:
        """Of partitions without positions, those that were copied before; with what is known of
        them."""
        if not rows or not builder.target_has(self._runs_topic):
            return {}
        remote = {tp: builder.work[tp].remote_topics for tp in rows}
        return find_lost_positions(self._target, self._runs_topic, rows, remote, deadline_s=RUNS_S)

    def _restore_positions(
        self,
        builder: PlanBuilder,
        found: Mapping[TopicPartition, GapFacts],
        known: Mapping[TopicPartition, Position],
    ) -> list[Position]:
        if not builder.target_has(self._runs_topic):
            return []
        lost = {
            tp: (known[tp], facts)
            for tp, facts in found.items()
            if facts.kind == "positions_lost" and tp in known and _matches(known[tp], facts)
        }
        rows = restore_positions(self._target, self._runs_topic, lost, deadline_s=RUNS_S)
        _resume(builder, rows)
        return rows


def _resume(builder: PlanBuilder, rows: Iterable[Position]) -> None:
    for row in rows:
        builder.resume((row.topic, row.partition), row.position)


def _found(builder: PlanBuilder) -> dict[TopicPartition, GapFacts]:
    """Gaps that cannot be detected again later, once their ranges are known."""
    return {
        tp: error.gap
        for tp, error in builder.stopped.items()
        if error.gap is not None and tp in builder.stopped_work and _mark_of(error.gap)
    }


def _is_new(found: Mapping[TopicPartition, GapFacts], stored: StoredPositions) -> bool:
    return any(
        facts.kind == "positions_lost" or _mark(stored.positions[tp]) != _mark_of(facts)
        for tp, facts in found.items()
        if tp in stored.positions
    )


def _matches(known: Position, facts: GapFacts) -> bool:
    """Whether the facts were found for this position."""
    reported = facts.remote_next
    return known.position == facts.position and reported in (None, known.next_downstream)


def _mark_of(facts: GapFacts) -> dict[str, Any]:
    if facts.kind == "positions_lost":
        return {"remote_copied": facts.remote_copied}
    if facts.kind == "truncated" and facts.end is not None:
        return {"cut_at": facts.end}
    return {}


def _mark(known: Position) -> dict[str, Any]:
    facts = stored_gap(known)
    return {} if facts is None else _mark_of(facts)
