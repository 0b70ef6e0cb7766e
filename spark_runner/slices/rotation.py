"""Rotation of slices when Spark has lost slots: Spark does not preempt, and tasks run for long."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from spark_runner.slices.run import SLOT_S

SHORTEST_TURN_S = 5.0
# Every flow that copies reports its slices each second.
_REPORTED_S = 5.0
# Spark assigns a free slot to the next task within this time.
_RELEASED_S = 5.0
_SHOWN_S = 30.0
ROTATING = (
    "Slices take turns: Spark runs fewer tasks at once than there are slices, perhaps because it "
    "lost executors. Stop a flow, lower tasks.max, or give Spark more executors."
)

# The number of the flow and the index of the slice.
_SliceId = tuple[int, int]


class Slice(Protocol):
    """The part of `SliceRun` that the rotation uses. Times are seconds."""

    @property
    def index(self) -> int: ...
    def working_s(self, now: float) -> float: ...
    def waiting_s(self, now: float) -> float: ...
    def release_slot(self) -> None: ...


@dataclasses.dataclass
class _FlowSlots:
    """The slices of one flow at its last report."""

    at: float
    waiting: set[_SliceId]
    # Since when each slice has its slot.
    working: dict[_SliceId, float]


def _none_free() -> int:
    return 0


class SlotRotation:
    """Shared by the flows of one runner. Called from their threads.

    `free_slots`: how many more tasks Spark could run now, 0 if it is not known. A slice that waits
    although one is free waits for its Python worker, not for a slot, so no other slice ends for it.
    """

    def __init__(self, free_slots: Callable[[], int] = _none_free) -> None:
        self.free_slots = free_slots
        self._reported: dict[int, _FlowSlots] = {}
        # Slots that were released and not taken yet: who released it, and when.
        self._released: dict[_SliceId, float] = {}
        self._released_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def rotate(self, flow: int, slices: Iterable[Slice], now: float) -> None:
        """Release as many slots as slices of all flows wait for, from those that held theirs
        longest.

        A flow ends only its own slices. Others do so when their flow reports.
        """
        own = {(flow, item.index): item for item in slices}
        with self._lock:
            self._update(flow, own, now)
            released = [slice_id for slice_id in self._to_release(now) if slice_id in own]
            self._released |= dict.fromkeys(released, now)
            if released:
                self._released_at[flow] = now
        for slice_id in released:
            own[slice_id].release_slot()

    def forget(self, flow: int) -> None:
        """Remove a flow that was ordered to stop: no slice releases a slot for it."""
        with self._lock:
            self._reported.pop(flow, None)

    def reason(self, flow: int, now: float) -> str:
        """The effect on the flow; empty if it released no slot recently."""
        at = self._released_at.get(flow)
        return ROTATING if at is not None and now - at < _SHOWN_S else ""

    def _update(self, flow: int, own: dict[_SliceId, Slice], now: float) -> None:
        before = self._reported.get(flow)
        state = self._reported[flow] = _FlowSlots(
            now,
            {slice_id for slice_id, item in own.items() if item.waiting_s(now) > SLOT_S},
            {
                slice_id: now - took
                for slice_id, item in own.items()
                if (took := item.working_s(now)) > 0
            },
        )
        for slice_id, since in state.working.items():
            # The slice has not ended yet.
            if since < self._released.get(slice_id, since):
                self._released[slice_id] = now
        for slice_id in before.waiting & state.working.keys() if before else ():
            # The slice took one of the released slots, whichever.
            self._released.pop(next(iter(self._released), slice_id), None)

    def _to_release(self, now: float) -> list[_SliceId]:
        """Slices that should release their slots now."""
        recent = [state for state in self._reported.values() if now - state.at < _REPORTED_S]
        self._released = {
            slice_id: at for slice_id, at in self._released.items() if now - at < _RELEASED_S
        }
        wanted = sum(len(state.waiting) for state in recent) - len(self._released)
        if wanted > 0 and self.free_slots() > 0:
            return []
        working = sorted(
            (since, slice_id)
            for state in recent
            for slice_id, since in state.working.items()
            if now - since > SHORTEST_TURN_S and slice_id not in self._released
        )
        return [slice_id for _, slice_id in working[: max(0, wanted)]]
