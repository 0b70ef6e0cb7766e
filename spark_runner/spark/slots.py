"""Spark's task slots, distributed to flows. A flow without a free slot is refused, not starved."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Slots:
    """FAIR scheduling does not preempt, and tasks run for long: a waiting task would wait
    forever."""

    def __init__(self, total: Callable[[], int]) -> None:
        self._total = total
        self._used: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return self._total()

    @property
    def used(self) -> int:
        return sum(self._used.values())

    def free_for(self, flow: int) -> int:
        """The maximum number of slices of the flow, including those it has."""
        with self._lock:
            others = sum(count for other, count in self._used.items() if other != flow)
            return max(self._used.get(flow, 0), self.total - others)

    def hold(self, flow: int, count: int) -> bool:
        """Reserve `count` slots. False, without a change, if too few are free."""
        with self._lock:
            others = sum(held for other, held in self._used.items() if other != flow)
            # A flow keeps its slots after Spark lost some. Then some of its slices wait.
            if others + count > self.total and count > self._used.get(flow, 0):
                return False
            self._used[flow] = count
            return True

    def release(self, flow: int) -> None:
        with self._lock:
            self._used.pop(flow, None)
