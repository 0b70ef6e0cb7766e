"""Slices take turns where slots were lost: Spark preempts nobody, and our tasks are long."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from typing import Protocol

from spark_runner.slices.run import SLOT_S

TURN_S = 5.0
# Every flow that copies says each second how its slices are.
_HEARD_S = 5.0
# Spark gives a slot that became free to the next task sooner.
_PASSING_S = 5.0
_SHOWN_S = 30.0
WORDS = (
    "Slices take turns: Spark runs fewer tasks at once than there are slices, perhaps since it "
    "lost executors. Stop a flow, lower tasks.max, or give Spark more executors."
)

# A slice among those of all flows: the flow's number and its own.
_Who = tuple[int, int]


class Slice(Protocol):
    """What is asked of `epochs.SliceRun`; seconds all."""

    @property
    def index(self) -> int: ...
    def works_s(self, now: float) -> float: ...
    def waits_s(self, now: float) -> float: ...
    def give_way(self) -> None: ...


@dataclasses.dataclass
class _Said:
    """How the slices of one flow were when it was last heard."""

    at: float
    waiting: set[_Who]
    # Since when each has its slot.
    working: dict[_Who, float]


class Turns:
    """What the flows of one runner tell each other; called from their threads."""

    def __init__(self) -> None:
        self._said: dict[int, _Said] = {}
        # Slots given away that nobody was seen to take yet: whose, and when it had it last.
        self._passing: dict[_Who, float] = {}
        self._gave_way_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def take(self, flow: int, slices: Iterable[Slice], now: float) -> None:
        """As many as wait for a slot, of all flows, get one from those that had theirs longest.

        A flow ends only slices of its own: it is told of others' when they say how they are.
        """
        own = {(flow, one.index): one for one in slices}
        with self._lock:
            self._hear(flow, own, now)
            chosen = [who for who in self._longest(now) if who in own]
            self._passing |= dict.fromkeys(chosen, now)
            if chosen:
                self._gave_way_at[flow] = now
        for who in chosen:
            own[who].give_way()

    def forget(self, flow: int) -> None:
        """It was told to stop: nobody ends for it."""
        with self._lock:
            self._said.pop(flow, None)

    def words(self, flow: int, now: float) -> str:
        """What that costs the flow; empty when it gave no slot away lately."""
        at = self._gave_way_at.get(flow)
        return WORDS if at is not None and now - at < _SHOWN_S else ""

    def _hear(self, flow: int, own: dict[_Who, Slice], now: float) -> None:
        before = self._said.get(flow)
        said = self._said[flow] = _Said(
            now,
            {who for who, one in own.items() if one.waits_s(now) > SLOT_S},
            {who: now - took for who, one in own.items() if (took := one.works_s(now)) > 0},
        )
        for who, since in said.working.items():
            # It has not ended yet.
            if since < self._passing.get(who, since):
                self._passing[who] = now
        for who in before.waiting & said.working.keys() if before else ():
            # It has one of those that were given, whichever.
            self._passing.pop(next(iter(self._passing), who), None)

    def _longest(self, now: float) -> list[_Who]:
        """Those whose slots are wanted now."""
        heard = [said for said in self._said.values() if now - said.at < _HEARD_S]
        self._passing = {who: at for who, at in self._passing.items() if now - at < _PASSING_S}
        wanted = sum(len(said.waiting) for said in heard) - len(self._passing)
        working = sorted(
            (since, who)
            for said in heard
            for who, since in said.working.items()
            if now - since > TURN_S and who not in self._passing
        )
        return [who for _, who in working[: max(0, wanted)]]
