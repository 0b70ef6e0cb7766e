"""MM2's writer and reader of offset syncs, as its own classes behave: the reference for ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.mm2_syncs import Sync

SLOTS = 64
MOST_IN_FLIGHT = 10
_LARGEST = 2**63 - 1


class SyncIndex:
    """The 64 syncs that a Java checkpoint task keeps of one partition, dense near the newest.

    For slots i < j that differ: (B) u_i <= u_j + 2^j - 2^i, not too old; (C) u_i >= u_j +
    2^max(i-2, 0), far enough apart. Slot 0 is the newest, slot 63 the oldest that can be used.
    """

    def __init__(self) -> None:
        self.slots: list[Sync] = []

    def add(self, sync: Sync, *, keep_history: bool = True) -> None:
        """`keep_history` False while the topic is read for the first time after a restart."""
        # A sync is the same as another by identity alone, as in Java.
        sync = Sync(*sync)
        rewound = bool(self.slots) and sync.upstream < self.slots[0].upstream
        if not self.slots or rewound or not keep_history:
            self.slots = [sync] * SLOTS
        else:
            self.slots = _inserted(self.slots, sync)

    def distinct(self) -> Iterator[tuple[int, Sync]]:
        """Where a new entry begins."""
        for number, sync in enumerate(self.slots):
            if number == 0 or sync is not self.slots[number - 1]:
                yield number, sync

    def translate(self, upstream: int) -> int | None:
        """As MM2's readers do: -1 for a group that is too far behind, None without any sync."""
        if not self.slots:
            return None
        for sync in self.slots:
            if sync.upstream <= upstream:
                # Nothing is known of the records after a sync, so one past it is the furthest.
                return sync.downstream + (sync.upstream < upstream)
        return -1


def _inserted(old: list[Sync], sync: Sync) -> list[Sync]:
    slots = list(old)
    slots[0] = carried = sync
    at = 0
    for number in range(1, SLOTS):
        before = slots[number - 1]
        dead = True
        while dead and at < SLOTS:
            candidate = old[at]
            far = _far_enough(before, number - 1, candidate)
            room = number == SLOTS - 1 or _far_enough(candidate, number, slots[number + 1])
            fits = _not_too_old(before, number - 1, candidate, number) and far and room
            if fits:
                carried = candidate
            dead = (at + 1 < SLOTS and candidate is old[at + 1]) or not far
            if fits or dead:
                at += 1
            if at >= number:
                break
        if _not_too_old(before, number - 1, slots[number], number):
            break
        slots[number] = carried
    return slots


def _not_too_old(newer: Sync, i: int, older: Sync, j: int) -> bool:
    bound = older.upstream + (1 << j) - (1 << i)
    # Java's long overflows, and then counts as near enough.
    return bound > _LARGEST or newer.upstream <= bound


def _far_enough(newer: Sync, i: int, older: Sync) -> bool:
    bound = older.upstream + (1 << max(i - 2, 0))
    return bound <= _LARGEST and newer.upstream >= bound


@dataclasses.dataclass
class _Last:
    upstream: int = -1
    downstream: int = -1
    synced: int = -1
    due: bool = False


class SyncWriter:
    """Which syncs MM2's source task writes, and when, for the records that were acknowledged."""

    def __init__(self, offset_lag_max: int) -> None:
        self._most = offset_lag_max
        self._last: dict[TopicPartition, _Last] = {}
        self._in_flight = 0
        # Due now, and due with the next commit; the newest sync of a partition replaces older ones.
        self.pending: dict[TopicPartition, Sync] = {}
        self.delayed: dict[TopicPartition, Sync] = {}

    def acknowledged(self, tp: TopicPartition, sync: Sync) -> dict[TopicPartition, Sync]:
        """A record was written; answer the syncs to send now."""
        last = self._last.setdefault(tp, _Last())
        last.due |= (
            last.synced == -1
            or sync.downstream - (last.synced + 1) >= self._most
            or sync.upstream - last.upstream != 1
            or sync.downstream < last.downstream
        )
        last.upstream, last.downstream = sync
        if last.due:
            last.synced, last.due = sync.downstream, False
            self.delayed.pop(tp, None)
            self.pending[tp] = sync
        else:
            self.delayed[tp] = sync
        return self._send()

    def committed(self) -> dict[TopicPartition, Sync]:
        """Positions were committed: idle partitions get their last sync too."""
        self.pending |= self.delayed
        self.delayed = {}
        return self._send()

    def arrived(self, count: int) -> dict[TopicPartition, Sync]:
        """This number of sent syncs were acknowledged, which makes room."""
        self._in_flight -= count
        return self._send()

    def _send(self) -> dict[TopicPartition, Sync]:
        sent = {}
        while self.pending and self._in_flight < MOST_IN_FLIGHT:
            tp = next(iter(self.pending))
            sent[tp] = self.pending.pop(tp)
            self._in_flight += 1
        return sent
