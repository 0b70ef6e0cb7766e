"""When retention overtakes a flow, from the pace of the earliest offset and of the position.

Brokers delete whole segments, so the earliest offset moves in steps. Each step is kept with the
time at which a sweep observed it; the mean over the steps is the pace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrors.domain.formatting import duration, plural, rate

Step = tuple[int, int]  # epoch milliseconds, first offset from then on
CopyProgress = tuple[int, int, int, int]  # (time, position) of an earlier sweep and of the last one

KEPT_STEPS = 24
# After this many usual pauses without a step, deletion has stopped: there is no forecast.
STALLED_AFTER = 6
# A copying flow is at risk only if it is much slower than deletion, and far behind.
SLOWER = 0.8
BEHIND_SHARE = 0.05
# A copy rate is measured over at least, and about, this many milliseconds.
PROGRESS_AT_LEAST_MS = 5_000
PROGRESS_MS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletionPace:
    """How the earliest offset moves: records per second, mean size of a step, the last step."""

    per_second: float
    step: float
    last: Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetentionRisk:
    """A partition whose records retention deletes before they are copied, or has deleted.

    `per_second` is the rate of deletion, `copied_per_second` the rate of copying.
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


def add_step(steps: Sequence[Step], before: int | None, earliest: int, at: int) -> list[Step]:
    """The steps with the offset of this sweep. A lower one means a recreated topic: no steps."""
    if before is None or earliest < before:
        return []
    if earliest == before:
        return list(steps)
    return [*steps, (at, earliest)][-KEPT_STEPS:]


def deletion_pace(steps: Sequence[Step], at: int) -> DeletionPace | None:
    """None with fewer than two steps, or if deletion has stalled."""
    if len(steps) < 2:
        return None
    (began, first), last = steps[0], steps[-1]
    every = (last[0] - began) / (len(steps) - 1)
    pause = at - last[0]
    if every <= 0 or pause > every * STALLED_AFTER:
        return None
    # An overdue step lowers the pace.
    seconds = (last[0] - began + max(0.0, pause - every)) / 1000
    moved = last[1] - first
    return DeletionPace(per_second=moved / seconds, step=moved / (len(steps) - 1), last=last)


def update_progress(track: CopyProgress | None, position: int, at: int) -> CopyProgress:
    if track is None or position < track[3]:
        return (at, position, at, position)
    began, first, last, known = track
    if at - began > PROGRESS_MS:
        began, first = last, known
    return (began, first, at, position)


def copy_rate(track: CopyProgress) -> float | None:
    """Records per second copied recently; None if observed for too short a time."""
    began, first, last, position = track
    if last - began < PROGRESS_AT_LEAST_MS:
        return None
    return (position - first) * 1000 / (last - began)


def risk_of(
    tp: tuple[str, int],
    *,
    position: int,
    earliest: int,
    end: int,
    pace: DeletionPace | None,
    copied: float | None,
    at: int,
) -> RetentionRisk | None:
    """None if nothing will be lost, or if that is unknown."""
    if position >= end:
        return None
    if position >= earliest:
        if pace is None or copied is None or _keeps_up(position, earliest, end, pace, copied):
            return None
        left_ms = _left_ms(position, pace, copied, at)
    else:
        left_ms = 0.0
    return RetentionRisk(
        topic=tp[0],
        partition=tp[1],
        position=position,
        earliest=earliest,
        end=end,
        loses_at=at + round(left_ms),
        per_second=pace.per_second if pace else 0.0,
        copied_per_second=copied or 0.0,
    )


def describe_risk(risk: RetentionRisk, others: int, at: int) -> str:
    """The message: which partition, when, why, how many more."""
    more = f"; {plural(others, 'more partition')} at risk" if others else ""
    where = f"partition {risk.partition} of {risk.topic}"
    if risk.lost:
        return f"{where} lost {plural(risk.lost, 'record')} to retention{more}"
    left = max(0, risk.loses_at - at)
    when = f"in {duration(left)}" if left else "any moment now"
    copied = f", {rate(risk.copied_per_second)}/s are replicated" if risk.copied_per_second else ""
    return (
        f"{where} will lose data {when}: retention deletes {rate(risk.per_second)} "
        f"records/s{copied}, {plural(risk.position - risk.earliest, 'record')} remain "
        f"between{more}"
    )


def _keeps_up(position: int, earliest: int, end: int, pace: DeletionPace, copied: float) -> bool:
    if copied <= 0:
        return False
    if end - position < (end - earliest) * BEHIND_SHARE:
        return True
    return copied >= pace.per_second * SLOWER


def _left_ms(position: int, pace: DeletionPace, copied: float, at: int) -> float:
    """Time until loss by the mean pace, plus half a step: a step deletes only at its end."""
    moved = min(pace.step, pace.per_second * (at - pace.last[0]) / 1000)
    left = position - pace.last[1] - moved + pace.step / 2
    return max(0.0, left * 1000 / (pace.per_second - copied))
