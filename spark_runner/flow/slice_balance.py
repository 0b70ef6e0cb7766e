"""How evenly a flow's bytes are distributed over its slices, and whether to pack them again.

Kept for as long as the flow runs in this runner: a restart of the flow is packed by what was
observed before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.flows.slice_packing import (
    NOT_OBSERVED,
    OBSERVE_S,
    ByteRates,
    PackingMemory,
    PackingVerdict,
    balance_of,
    judge_packing,
)

JUDGE_S = 10.0


class SliceBalance:
    """Used by the flow's thread. `now` is monotonic, in seconds."""

    def __init__(self, now: float) -> None:
        self._rates = ByteRates()
        self._began = now
        self._memory = PackingMemory(since=now)
        self._judge_at = now
        self._packed_at: int | None = None
        self.verdict = NOT_OBSERVED

    def record(self, copied: Mapping[TopicPartition, tuple[int, int]], now: float) -> None:
        """`copied`: records and bytes that each partition copied since the last call."""
        for tp, (_, size) in copied.items():
            self._rates.add(tp, size, now)

    def rates(self, now: float) -> dict[TopicPartition, float] | None:
        """Bytes per second by partition; None before they were observed for long enough."""
        return self._rates.at(now) if now >= self._began + OBSERVE_S else None

    def is_due(self, now: float) -> bool:
        return now >= self._judge_at

    def judge(
        self, slices: Mapping[TopicPartition, int], count: int, lag_s: float | None, now: float
    ) -> PackingVerdict:
        """`slices`: the slice of each partition that is copied now."""
        self._judge_at = now + JUDGE_S
        balance = balance_of(self._rates.at(now), slices, count)
        self._memory = self._memory.observe(balance, now)
        verdict = judge_packing(balance, self._memory, lag_s=lag_s, now=now)
        self.verdict = dataclasses.replace(verdict, packed_at=self._packed_at)
        return self.verdict

    def begin(self, now: float) -> None:
        """The slices of a job are packed: what was observed counts for the next packing."""
        self._memory = dataclasses.replace(self._memory, since=now, uneven_since=None)
        self._judge_at = now + JUDGE_S

    def packed(self, now: float, wall: int) -> None:
        """The slices are packed by observed bytes. `wall`: epoch milliseconds."""
        self._memory = self._memory.packed(now)
        self._judge_at, self._packed_at = now + JUDGE_S, wall
