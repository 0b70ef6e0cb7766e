"""One partition as the driver knows it: where it stands, how far the source reaches, its state."""

from __future__ import annotations

from collections import deque

from mirrors.domain.continuity.strangers import Stretch
from mirrors.domain.jobs import JobState, TopicState
from spark_runner.work import PartitionError, PartitionFigure

# Who is so far behind for so long is catching up; less is the beat of commits.
LAGGING_MS = 10_000
# The control plane takes them up every two seconds.
MOST_STRANGERS = 200


class Row:
    """What is known of one partition."""

    __slots__ = (
        "caught_up_at",
        "end",
        "ends_as_of",
        "lane",
        "left_out",
        "position",
        "repeats",
        "stable",
        "strangers",
        "timestamp",
        "why",
    )

    def __init__(self, position: int | None) -> None:
        self.position = position
        self.timestamp: int | None = None
        self.end: int | None = None
        self.stable: int | None = None
        self.ends_as_of = 0
        self.lane = self.why = ""
        self.left_out = 0
        # The newest of what others wrote into the remote partition.
        self.strangers: deque[Stretch] = deque(maxlen=MOST_STRANGERS)
        self.repeats: int | None = None
        self.caught_up_at: int | None = None

    def moved(self, figure: PartitionFigure, now: int) -> None:
        self.position, self.lane, self.why = figure.position, figure.lane, figure.why
        self.left_out += figure.left_out
        self.strangers.extend(figure.strangers)
        self.repeats = figure.repeats
        self.timestamp = figure.timestamp or self.timestamp
        # The ends were asked a moment ago, and what was copied since was there: never behind it.
        self.end = None if self.end is None else max(self.end, figure.position)
        self.stable = None if self.stable is None else max(self.stable, figure.position)
        self._look(now)

    def reaches(self, end: int | None, stable: int | None, as_of: int) -> None:
        if end is None and stable is None:
            # Its leader did not answer: what is known has the age that it had.
            return
        reached = self.position or 0
        self.end = self.end if end is None else max(end, reached)
        self.stable = self.stable if stable is None else max(stable, reached)
        self.ends_as_of = as_of
        self._look(as_of)

    def _look(self, now: int) -> None:
        if self.position is not None and self.stable is not None and self.position >= self.stable:
            self.caught_up_at = now

    def time_lag(self, now: int) -> int | None:
        """Age of the oldest record not yet copied: at most the time since there was none."""
        if self.position is None or self.stable is None:
            return None
        if self.position >= self.stable:
            return 0
        known = [t for t in (self.caught_up_at, self.timestamp) if t is not None]
        return max(0, now - max(known)) if known else None


def state_of(
    row: Row, error: PartitionError | None, flow: JobState, time_lag: int | None
) -> TopicState:
    if error is not None:
        return error.state
    if flow in ("paused", "stopped"):
        return "paused"
    if row.stable is None or row.position is None:
        return "pending"
    if row.position >= row.stable:
        return "in_sync"
    return "lagging" if time_lag is None or time_lag > LAGGING_MS else "syncing"
