"""Decides when to commit: late during a backlog, soon when everything was written.

A transaction costs one wait (about 17 ms on one broker) and a marker in each partition.

- Backlog: the longest interval allowed.
- Nothing left to send: a short interval, as long as commits are cheap, since consumers with
  `read_committed` wait for the commit.
- A distant target and a slice that is behind: later still, so that commits take a twentieth of the
  time. After a restart the interval begins short again: a connection that keeps breaking would
  never let a long transaction end.
- At least once: always the long interval. Consumers see records at once, and a commit would delay
  the next ones.
"""

from __future__ import annotations

from typing import Final

_SOONEST_S: Final = 0.1
# At most a sixth of the time: a commit of 10 ms once in 60 ms.
_COST_SHARE: Final = 6.0
_FAR_COST_SHARE: Final = 19.0
# How long a commit is postponed before the backlog is looked at again.
_POSTPONE_S: Final = 0.25
# For positions that moved past dropped batches only; nobody waits for them.
_QUIET_S: Final = 5.0


class CommitTiming:
    """Pure: times are arguments, in seconds of the monotonic clock."""

    def __init__(self, *, longest_s: float, readers_wait: bool, behind_s: float = 0.0) -> None:
        """`behind_s`: the longest interval while the slice is behind, if it is longer."""
        self._longest = longest_s
        self._behind = max(behind_s, longest_s)
        # The part of `_behind` that is allowed now.
        self._allowed = longest_s
        self._postponed = 0.0
        self._soonest = min(_SOONEST_S, longest_s) if readers_wait else longest_s
        self._cost = 0.0
        self._opened: float | None = None
        self._ended = 0.0

    def begin(self, now: float) -> None:
        self._opened = None
        self._ended = now
        self._allowed = self._longest

    @property
    def is_open(self) -> bool:
        """Whether anything was written since the last commit."""
        return self._opened is not None

    def opened(self, now: float) -> None:
        self._opened = now

    def is_due(self, now: float, *, idle: bool) -> bool:
        if self._opened is None:
            return now - self._ended >= _QUIET_S
        if now < self._postponed:
            return False
        return now - self._opened >= (self._idle_interval if idle else self._longest)

    def wakes_at(self, now: float) -> float:
        if self._opened is None:
            return self._ended + _QUIET_S
        if now < self._postponed:
            return self._postponed
        soon = self._opened + self._idle_interval
        return soon if now < soon else self._opened + self._longest

    def may_postpone(self, now: float) -> bool:
        """Whether a commit that is due may wait while the slice is behind."""
        if self._opened is None:
            return False
        interval = min(self._allowed, max(self._longest, self._cost * _FAR_COST_SHARE))
        return now - self._opened < interval

    def postpone(self, now: float) -> None:
        self._postponed = now + _POSTPONE_S

    @property
    def _idle_interval(self) -> float:
        return min(self._longest, max(self._soonest, self._cost * _COST_SHARE))

    def committed(self, began: float, ended: float) -> None:
        if self._cost or self._behind == self._longest:
            self._cost = 0.8 * self._cost + 0.2 * (ended - began)
        else:
            # To a distant target the round trips decide, and the first commit has as many.
            self._cost = ended - began
        self._allowed = min(2 * self._allowed, self._behind)
        self._opened = None
        self._ended = ended

    def nothing_to_commit(self, now: float) -> None:
        """There was nothing to commit."""
        self._opened = None
        self._ended = now
