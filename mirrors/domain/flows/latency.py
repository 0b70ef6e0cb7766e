"""Replication latency: from the timestamp of a record to its commit on the target.

MirrorMaker 2's `replication-latency-ms` ends when the target acknowledges the record; here it ends
with the commit, when consumers of committed records can read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# Kafka's metrics have two samples of half a minute.
BUCKET_MS = 30_000


class Latency(NamedTuple):
    """Latency of some records, in ms: their number, the sum, the lowest and the highest."""

    records: int
    total_ms: int
    min_ms: int
    max_ms: int

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.records


def add_up(found: Iterable[Latency | None]) -> Latency | None:
    """The latency of all these records; None if there are none."""
    known = [one for one in found if one is not None and one.records > 0]
    if not known:
        return None
    return Latency(
        sum(one.records for one in known),
        sum(one.total_ms for one in known),
        min(one.min_ms for one in known),
        max(one.max_ms for one in known),
    )


def latency_of(
    *, records: int, timestamp_sum: int, oldest: int, newest: int, now: int
) -> Latency | None:
    """The latency of records committed at `now` (epoch ms), by sum and range of their timestamps.

    None without records, or if the source stores no timestamps (-1). A timestamp after `now` (a
    clock ahead) counts as 0 in the range.
    """
    if records <= 0 or oldest < 0:
        return None
    return Latency(
        records, max(0, now * records - timestamp_sum), max(0, now - newest), max(0, now - oldest)
    )


class LatencyWindow:
    """The latency of the last half to whole minute; None if no record was committed in it."""

    __slots__ = ("_before", "_current", "_slot")

    def __init__(self) -> None:
        self._slot = 0
        self._current: Latency | None = None
        self._before: Latency | None = None

    def add(self, latency: Latency | None, now: int) -> None:
        self._turn(now)
        if latency is not None:
            self._current = add_up((self._current, latency))

    def read(self, now: int) -> Latency | None:
        self._turn(now)
        return add_up((self._current, self._before))

    def _turn(self, now: int) -> None:
        slot = now // BUCKET_MS
        if slot != self._slot:
            self._before = self._current if slot == self._slot + 1 else None
            self._current, self._slot = None, slot
