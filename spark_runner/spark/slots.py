"""Spark's task slots, shared out among flows: a flow that finds none is refused, not starved."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Slots:
    """FAIR never preempts and our tasks are long: who waits for a slot waits for ever."""

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
        """How many slices the flow may have, those that it has included."""
        with self._lock:
            others = sum(count for other, count in self._used.items() if other != flow)
            return max(self._used.get(flow, 0), self.total - others)

    def hold(self, flow: int, count: int) -> bool:
        """Hold so many slots from now on; False, and nothing changes, when there are too few."""
        with self._lock:
            others = sum(held for other, held in self._used.items() if other != flow)
            # What it has it keeps, though slots were lost meanwhile: some of its slices wait.
            if others + count > self.total and count > self._used.get(flow, 0):
                return False
            self._used[flow] = count
            return True

    def release(self, flow: int) -> None:
        with self._lock:
            self._used.pop(flow, None)
