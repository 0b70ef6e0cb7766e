"""How much one slice has copied, and how quickly lately."""

from __future__ import annotations

import time
from collections import deque

RATE_OVER_S = 5.0


class Meter:
    """Totals and rates of one slice; an epoch counts from nought each time."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._epoch = 0
        self._before = (0, 0)
        self._marks: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])

    def count(self, epoch: int, records: int, size: int) -> tuple[int, int]:
        """What was added since the last time."""
        if epoch != self._epoch:
            self._epoch, self._before = epoch, (0, 0)
        added = records - self._before[0], size - self._before[1]
        self._before = records, size
        self.records += added[0]
        self.bytes += added[1]
        self._marks.append((time.monotonic(), self.records, self.bytes))
        return added

    def rates(self) -> tuple[float, float]:
        now = time.monotonic()
        while len(self._marks) > 1 and self._marks[1][0] < now - RATE_OVER_S:
            self._marks.popleft()
        since, records, size = self._marks[0]
        span = max(RATE_OVER_S, now - since)
        return (self.records - records) / span, (self.bytes - size) / span
