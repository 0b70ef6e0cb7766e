"""When retention overtakes a flow: how fast first offsets move, and what lies between. Pure.

Brokers delete whole segments, so a first offset moves in steps. What is remembered are the moments
at which it was seen to have moved; the mean over them is its pace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrors.domain.formatting import duration, plural, rate

Step = tuple[int, int]  # epoch milliseconds, first offset from then on
Track = tuple[int, int, int, int]  # (moment, position) some time ago, and at the last look

KEPT = 24
# After this many usual pauses without a step, deletion has stopped: there is no forecast.
STANDS_AFTER = 6
# A flow that copies is at risk only when it is clearly slower than deletion, and clearly behind.
SLOWER = 0.8
BEHIND_SHARE = 0.05
# A copy rate is measured over at least, and about, this many milliseconds.
TRACK_AT_LEAST_MS = 5_000
TRACK_MS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pace:
    """How a first offset moves: records a second, the size of a step, the last one."""

    per_second: float
    step: float
    last: Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Risk:
    """A partition whose records will be deleted before they are copied, or were.

    `per_second` is what retention deletes, `copied_per_second` what the flow copies meanwhile.
    """

    topic: str
    partition: int
    position: int
    earliest: int
    end: int
    loses_at: int
    per_second: float
    copied_per_second: float

    @property
    def lost(self) -> int:
        return max(0, self.earliest - self.position)


def follow(steps: Sequence[Step], before: int | None, earliest: int, at: int) -> list[Step]:
    """The steps with this look at the first offset; one that went back is another topic's."""
    if before is None or earliest < before:
        return []
    if earliest == before:
        return list(steps)
    return [*steps, (at, earliest)][-KEPT:]


def pace(steps: Sequence[Step], at: int) -> Pace | None:
    """None where too little was seen, or where deletion has come to rest."""
    if len(steps) < 2:
        return None
    (began, first), last = steps[0], steps[-1]
    every = (last[0] - began) / (len(steps) - 1)
    pause = at - last[0]
    if every <= 0 or pause > every * STANDS_AFTER:
        return None
    # A step that is overdue makes the whole slower.
    seconds = (last[0] - began + max(0.0, pause - every)) / 1000
    moved = last[1] - first
    return Pace(per_second=moved / seconds, step=moved / (len(steps) - 1), last=last)


def follow_position(track: Track | None, position: int, at: int) -> Track:
    if track is None or position < track[3]:
        return (at, position, at, position)
    began, first, last, known = track
    if at - began > TRACK_MS:
        began, first = last, known
    return (began, first, at, position)


def copy_rate(track: Track) -> float | None:
    """Records a second that were copied lately; None where it was not watched for long enough."""
    began, first, last, position = track
    if last - began < TRACK_AT_LEAST_MS:
        return None
    return (position - first) * 1000 / (last - began)


def risk_of(
    place: tuple[str, int],
    *,
    position: int,
    earliest: int,
    end: int,
    found: Pace | None,
    copied: float | None,
    at: int,
) -> Risk | None:
    """None where nothing will be lost, or where it cannot be told."""
    if position >= end:
        return None
    if position >= earliest:
        if found is None or copied is None or _keeps_up(position, earliest, end, found, copied):
            return None
        left_ms = _left_ms(position, found, copied, at)
    else:
        left_ms = 0.0
    return Risk(
        topic=place[0],
        partition=place[1],
        position=position,
        earliest=earliest,
        end=end,
        loses_at=at + round(left_ms),
        per_second=found.per_second if found else 0.0,
        copied_per_second=copied or 0.0,
    )


def in_words(risk: Risk, others: int, at: int) -> str:
    """The message: which partition, when, why, how many more."""
    more = f"; {plural(others, 'more partition')} at risk" if others else ""
    where = f"partition {risk.partition} of {risk.topic}"
    if risk.lost:
        return f"{where} has lost {plural(risk.lost, 'record')} to retention{more}"
    left = max(0, risk.loses_at - at)
    when = f"in {duration(left)}" if left else "any moment now"
    copied = f", {rate(risk.copied_per_second)}/s are copied" if risk.copied_per_second else ""
    return (
        f"{where} will lose data {when}: retention deletes {rate(risk.per_second)} records/s"
        f"{copied}, {plural(risk.position - risk.earliest, 'record')} lie between{more}"
    )


def _keeps_up(position: int, earliest: int, end: int, found: Pace, copied: float) -> bool:
    if copied <= 0:
        return False
    if end - position < (end - earliest) * BEHIND_SHARE:
        return True
    return copied >= found.per_second * SLOWER


def _left_ms(position: int, found: Pace, copied: float, at: int) -> float:
    """Along the mean of the steps, and half a step later: until its end a step deletes nothing."""
    moved = min(found.step, found.per_second * (at - found.last[0]) / 1000)
    left = position - found.last[1] - moved + found.step / 2
    return max(0.0, left * 1000 / (found.per_second - copied))
