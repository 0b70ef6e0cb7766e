"""What a sweep of a source says of one flow: what it will lose, what holds it back. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from monitoring.domain.forecasts.retention import (
    Risk,
    Step,
    Track,
    copy_rate,
    follow,
    follow_position,
    pace,
    risk_of,
)

Place = tuple[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """What a partition of the source holds. Moments are epoch milliseconds.

    `held_since`: since when an open transaction keeps `stable` from moving, as far as was seen.
    """

    earliest: int
    end: int
    stable: int
    steps: tuple[Step, ...] = ()
    held_since: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Held:
    """Records behind the last stable offset: written, but by a transaction that is still open."""

    topic: str
    partition: int
    since: int
    records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outlook:
    """`reached` is the sum of the positions: while it does not grow, nothing is copied."""

    reached: int
    risks: tuple[Risk, ...]
    held: tuple[Held, ...]
    tracks: Mapping[Place, Track]


def seen(before: Range | None, *, earliest: int, end: int, stable: int, at: int) -> Range:
    """One look at a partition after the last one."""
    steps = follow(
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


def look(
    ranges: Mapping[Place, Range],
    positions: Iterable[tuple[Place, int | None]],
    tracks: Mapping[Place, Track],
    *,
    paused: bool,
    at: int,
) -> Outlook:
    """`positions` are those of the flow; a partition that was not answered is left out."""
    reached = 0
    risks, held, followed = [], [], {}
    for place, position in positions:
        found = ranges.get(place)
        if found is None:
            continue
        if found.held_since is not None:
            held.append(_held(place, found))
        if position is None:
            continue
        reached += position
        moves = pace(found.steps, at)
        if position >= found.end or (moves is None and position >= found.earliest):
            continue
        track = followed[place] = follow_position(tracks.get(place), position, at)
        risk = risk_of(
            place,
            position=position,
            earliest=found.earliest,
            end=found.end,
            found=moves,
            copied=0.0 if paused else copy_rate(track),
            at=at,
        )
        if risk is not None:
            risks.append(risk)
    return Outlook(
        reached=reached,
        risks=tuple(sorted(risks, key=lambda one: (one.loses_at, -one.lost))),
        held=tuple(sorted(held, key=lambda one: one.since)),
        tracks=followed,
    )


def _held(place: Place, found: Range) -> Held:
    return Held(
        topic=place[0],
        partition=place[1],
        since=found.held_since or 0,
        records=found.end - found.stable,
    )
