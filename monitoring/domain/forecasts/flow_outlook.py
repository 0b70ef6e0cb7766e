"""Forecast of one flow from a sweep of its source: data loss and open transactions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from monitoring.domain.forecasts.retention import (
    CopyProgress,
    RetentionRisk,
    Step,
    add_step,
    copy_rate,
    deletion_pace,
    risk_of,
    update_progress,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Offsets of a source partition. Times are epoch milliseconds.

    `stable` is the last stable offset (LSO). `held_since` is since when an open transaction holds
    it back, as far as sweeps observed it.
    """

    earliest: int
    end: int
    stable: int
    steps: tuple[Step, ...] = ()
    held_since: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldRecords:
    """Records above the last stable offset, which an open transaction holds back."""

    topic: str
    partition: int
    since: int
    records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """`reached` is the sum of the positions; while it does not grow, nothing is copied."""

    reached: int
    risks: tuple[RetentionRisk, ...]
    held: tuple[HeldRecords, ...]
    tracks: Mapping[TopicPartition, CopyProgress]


def observe(before: Range | None, *, earliest: int, end: int, stable: int, at: int) -> Range:
    """The offsets of a partition at this sweep, given those at the last one."""
    steps = add_step(
        before.steps if before else (), before.earliest if before else None, earliest, at
    )
    held_since = None
    if stable < end:
        same = before is not None and before.stable == stable
        held_since = before.held_since if before and same and before.held_since else at
    return Range(
        earliest=earliest,
        end=end,
        stable=stable,
        steps=tuple(steps),
        held_since=held_since,
    )


def forecast(
    ranges: Mapping[TopicPartition, Range],
    positions: Iterable[tuple[TopicPartition, int | None]],
    tracks: Mapping[TopicPartition, CopyProgress],
    *,
    paused: bool,
    at: int,
) -> Forecast:
    """`positions` are those of the flow; partitions without offsets in `ranges` are skipped."""
    reached = 0
    risks, held, followed = [], [], {}
    for tp, position in positions:
        found = ranges.get(tp)
        if found is None:
            continue
        if found.held_since is not None:
            held.append(_held(tp, found))
        if position is None:
            continue
        reached += position
        moves = deletion_pace(found.steps, at)
        if position >= found.end or (moves is None and position >= found.earliest):
            continue
        track = followed[tp] = update_progress(tracks.get(tp), position, at)
        risk = risk_of(
            tp,
            position=position,
            earliest=found.earliest,
            end=found.end,
            pace=moves,
            copied=0.0 if paused else copy_rate(track),
            at=at,
        )
        if risk is not None:
            risks.append(risk)
    return Forecast(
        reached=reached,
        risks=tuple(sorted(risks, key=lambda one: (one.loses_at, -one.lost))),
        held=tuple(sorted(held, key=lambda one: one.since)),
        tracks=followed,
    )


def _held(tp: TopicPartition, found: Range) -> HeldRecords:
    return HeldRecords(
        topic=tp[0],
        partition=tp[1],
        since=found.held_since or 0,
        records=found.end - found.stable,
    )
