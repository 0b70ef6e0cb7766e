"""When the record lane commits: an interval after the first news, sooner once all has been read."""

from __future__ import annotations

# The longest sleep: an order is seen so soon.
IDLE_S = 0.2
# Positions that moved without a record (transaction markers) can wait.
QUIET_COMMIT_S = 1.0
# Caught up, a commit may follow sooner than the interval, at a tenth of the time at most.
SOONEST_COMMIT_S = 0.02
COMMIT_SHARE = 10


class RecordCommitTiming:
    """Pure but for the clock readings it is given; seconds all."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due: float | None = None
        self._took_s = 0.0

    def moved(self, now: float) -> None:
        """A record is on its way, or the end of a bounded run was reached."""
        self._within(self._interval_s, now)

    def passed_over(self, now: float) -> None:
        """A position moved, and nobody waits for it."""
        self._within(max(self._interval_s, QUIET_COMMIT_S), now)

    def caught_up(self, now: float) -> None:
        """Nothing more to read: whoever reads the target need not wait the interval out."""
        self._within(max(SOONEST_COMMIT_S, COMMIT_SHARE * self._took_s), now)

    def is_due(self, now: float) -> bool:
        return self._due is not None and now >= self._due

    def wait_s(self, now: float) -> float:
        return IDLE_S if self._due is None else max(0.0, min(IDLE_S, self._due - now))

    def begun(self) -> None:
        """Whatever comes from now on is for the commit after this one."""
        self._due = None

    def committed(self, took_s: float) -> None:
        self._took_s = took_s

    def _within(self, seconds: float, now: float) -> None:
        due = now + seconds
        self._due = due if self._due is None else min(self._due, due)
