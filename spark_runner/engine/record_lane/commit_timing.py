"""When the record lane commits: an interval after the first record, sooner after reading
everything."""

from __future__ import annotations

# The longest wait; orders are checked afterwards.
IDLE_S = 0.2
# Positions that moved past transaction markers only can wait.
QUIET_COMMIT_S = 1.0
# After reading everything, a commit may follow sooner, but take at most a tenth of the time.
SOONEST_COMMIT_S = 0.02
COMMIT_SHARE = 10


class RecordCommitTiming:
    """Pure: times are arguments, in seconds of the monotonic clock."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due: float | None = None
        self._took_s = 0.0

    def moved(self, now: float) -> None:
        """A record was produced, or a bounded run reached its end."""
        self._within(self._interval_s, now)

    def passed_over(self, now: float) -> None:
        """A position moved without a record."""
        self._within(max(self._interval_s, QUIET_COMMIT_S), now)

    def caught_up(self, now: float) -> None:
        """Nothing more to read: consumers of the target need not wait for the interval."""
        self._within(max(SOONEST_COMMIT_S, COMMIT_SHARE * self._took_s), now)

    def is_due(self, now: float) -> bool:
        return self._due is not None and now >= self._due

    def wait_s(self, now: float) -> float:
        return IDLE_S if self._due is None else max(0.0, min(IDLE_S, self._due - now))

    def begun(self) -> None:
        """Later records belong to the next commit."""
        self._due = None

    def committed(self, took_s: float) -> None:
        self._took_s = took_s

    def _within(self, seconds: float, now: float) -> None:
        due = now + seconds
        self._due = due if self._due is None else min(self._due, due)
