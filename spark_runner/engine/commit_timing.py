"""Decides when to commit: late during a backlog, soon when everything was written.

A transaction costs one wait (about 17 ms on one broker) and a marker in each partition.

- Backlog: the longest interval allowed.
- Nothing left to send: a short interval, as long as commits are cheap, since consumers with
  `read_committed` wait for the commit.
- At least once: always the long interval. Consumers see records at once, and a commit would delay
  the next ones.
"""

from __future__ import annotations

from typing import Final

_SOONEST_S: Final = 0.1
# At most a sixth of the time: a commit of 10 ms once in 60 ms.
_COST_SHARE: Final = 6.0
# For positions that moved past dropped batches only; nobody waits for them.
_QUIET_S: Final = 5.0


class CommitTiming:
    """Pure: times are arguments, in seconds of the monotonic clock."""

    def __init__(self, *, longest_s: float, readers_wait: bool) -> None:
        self._longest = longest_s
        self._soonest = min(_SOONEST_S, longest_s) if readers_wait else longest_s
        self._cost = 0.0
        self._opened: float | None = None
        self._ended = 0.0

    def begin(self, now: float) -> None:
        self._opened = None
        self._ended = now

    @property
    def is_open(self) -> bool:
        """Whether anything was written since the last commit."""
        return self._opened is not None

    def opened(self, now: float) -> None:
        self._opened = now

    def is_due(self, now: float, *, idle: bool) -> bool:
        if self._opened is None:
            return now - self._ended >= _QUIET_S
        return now - self._opened >= (self._short if idle else self._longest)

    def wakes_at(self, now: float) -> float:
        if self._opened is None:
            return self._ended + _QUIET_S
        soon = self._opened + self._short
        return soon if now < soon else self._opened + self._longest

    @property
    def _short(self) -> float:
        return min(self._longest, max(self._soonest, self._cost * _COST_SHARE))

    def committed(self, began: float, ended: float) -> None:
        self._cost = 0.8 * self._cost + 0.2 * (ended - began)
        self._opened = None
        self._ended = ended

    def nothing(self, now: float) -> None:
        """There was nothing to commit."""
        self._opened = None
        self._ended = now
