"""Slices take turns where slots were lost: Spark preempts nobody, and our tasks are long."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from spark_runner.epochs import SLOT_S, SliceRun

TURN_S = 5.0
# Every flow that copies says each second how many of its slices wait.
_HEARD_S = 5.0
_SHOWN_S = 30.0
WORDS = (
    "Slices take turns: Spark runs fewer tasks at once than there are slices, perhaps since it "
    "lost executors. Stop a flow, lower tasks.max, or give Spark more executors."
)


class Turns:
    """What the flows of one runner tell each other; called from their threads."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, float]] = {}
        self._gave_way_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def take(self, flow: int, runs: Iterable[SliceRun], now: float) -> None:
        """As many as wait for a slot, of all flows, get one from those that had theirs longest."""
        known = list(runs)
        own = sum(run.waits_s(now) > SLOT_S for run in known)
        with self._lock:
            self._waiting[flow] = own, now
            waiting = sum(count for count, at in self._waiting.values() if now - at < _HEARD_S)
        known.sort(key=lambda run: -run.works_s(now))
        for run in known[:waiting]:
            if run.works_s(now) > TURN_S:
                run.give_way()
                self._gave_way_at[flow] = now

    def words(self, flow: int, now: float) -> str:
        """What that costs the flow; empty when it gave no slot away lately."""
        at = self._gave_way_at.get(flow)
        return WORDS if at is not None and now - at < _SHOWN_S else ""
