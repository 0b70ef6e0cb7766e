"""Counts the records in offset ranges by reading them, within a byte budget.

Offsets alone are an upper bound: transaction markers, aborted and compacted records have offsets
too. Ranges that the budget or the deadline leaves unread stay an upper bound. Nothing is committed,
and no group gets a member.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import time
from array import array
from collections.abc import Callable, Iterable, Mapping

import confluent_kafka
from confluent_kafka import Consumer, Message

from mirrors.domain.account.totals import Count
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.reading.samples import Window, messages

CLIENT_ID = "understudy-counts"
MAX_BYTES = 64 << 20
# Partitions and offsets read side by side. A larger partition waits, so that the budget goes to
# those that can be counted whole.
_AT_ONCE = 32
_OFFSETS_AT_ONCE = 50_000
# What a record's key and value do not say of its size: its headers and fields, about.
_OVERHEAD = 32


class Offsets:
    """The offsets of the records read from one partition, and the ranges they cover."""

    def __init__(self) -> None:
        self._at = array("q")
        self._covered: list[Window] = []

    def add(self, offset: int) -> None:
        self._at.append(offset)

    def cover(self, start: int, end: int) -> None:
        if start < end:
            self._covered.append((start, end))

    def count(self, start: int, end: int, is_counted: Callable[[int], bool] | None = None) -> Count:
        """Of [start, end): records that were read, and offsets that were not read.

        `is_counted` leaves out records by their offset.
        """
        if start >= end:
            return Count(0, 0)
        records = read = 0
        for first, last in self._covered:
            low, high = max(first, start), min(last, end)
            if low >= high:
                continue
            read += high - low
            found = self._at[bisect.bisect_left(self._at, low) : bisect.bisect_left(self._at, high)]
            records += len(found) if is_counted is None else sum(map(is_counted, found))
        return Count(records, end - start - read)


@dataclasses.dataclass
class _CurrentWindow:
    """The window of a partition that is being read: the next offset in it."""

    start: int
    end: int
    reached: int


def read_record_offsets(
    spec: ClusterSpec,
    windows: Mapping[TopicPartition, Iterable[Window]],
    *,
    deadline_s: float,
    committed: bool = True,
    max_bytes: int = MAX_BYTES,
    tick: Callable[[], None] = lambda: None,
) -> Partial[TopicPartition, Offsets]:
    """The offsets of the records in these windows, smallest partitions first.

    A partition that could not be read is in `failed`. One that was read in part is not: its
    `Offsets` have the covered ranges. A window must begin at or after the partition's log start.
    """
    merged = {tp: _merge_windows(rows) for tp, rows in windows.items()}
    waiting = sorted(
        (tp for tp, rows in merged.items() if rows),
        key=lambda tp: sum(end - start for start, end in merged[tp]),
        reverse=True,
    )
    result: Partial[TopicPartition, Offsets] = Partial(done={tp: Offsets() for tp in merged})
    if waiting:
        own = {"group.id": CLIENT_ID, **_consumer_config(committed)}
        config = client_config(spec, client_id=CLIENT_ID, role="consumer", extra=own)
        with contextlib.closing(Consumer(config)) as consumer:
            pass_over = _WindowReader(spec, consumer, merged, waiting, result)
            pass_over.run(max_bytes, time.monotonic() + deadline_s, tick)
    for tp in result.failed:
        result.done.pop(tp, None)
    return result


class _WindowReader:
    """Reads all windows once."""

    def __init__(
        self,
        spec: ClusterSpec,
        consumer: Consumer,
        windows: dict[TopicPartition, list[Window]],
        waiting: list[TopicPartition],
        result: Partial[TopicPartition, Offsets],
    ) -> None:
        self._spec, self._consumer = spec, consumer
        self._windows, self._waiting, self._result = windows, waiting, result
        self._open: dict[TopicPartition, _CurrentWindow] = {}
        self._bytes = 0

    def run(self, max_bytes: int, until: float, tick: Callable[[], None]) -> None:
        self._assign()
        while self._open and self._bytes < max_bytes and time.monotonic() < until:
            tick()
            for tp, message, reached in messages(self._consumer, self._spec, self._result.failed):
                self._take(tp, message, reached)
            self._assign()
        for tp, turn in self._open.items():
            self._result.done[tp].cover(turn.start, turn.reached)

    def _assign(self) -> None:
        """Begin the next partitions, and the next window of partitions whose last window is
        read."""
        fresh = []
        while self._waiting and len(self._open) < _AT_ONCE:
            under_way = sum(turn.end - turn.start for turn in self._open.values())
            start, end = self._windows[self._waiting[-1]][0]
            if self._open and under_way + end - start > _OFFSETS_AT_ONCE:
                break
            tp = self._waiting.pop()
            del self._windows[tp][0]
            self._open[tp] = _CurrentWindow(start, end, start)
            fresh.append(confluent_kafka.TopicPartition(*tp, start))
        if fresh:
            self._consumer.incremental_assign(fresh)

    def _take(self, tp: TopicPartition, message: Message | None, reached: int | None) -> None:
        turn = self._open.get(tp)
        if turn is None:
            return
        if reached is None:
            self._close(tp)
            return
        if message is not None:
            self._bytes += _OVERHEAD + len(message.key() or b"") + len(message.value() or b"")
            if turn.start <= reached - 1 < turn.end:
                self._result.done[tp].add(reached - 1)
        turn.reached = max(turn.reached, min(reached, turn.end))
        if message is None or reached >= turn.end:
            # At the end of the log there is nothing more, wherever the window ends.
            self._result.done[tp].cover(turn.start, turn.end)
            self._close(tp)
            if self._windows[tp]:
                self._waiting.append(tp)

    def _close(self, tp: TopicPartition) -> None:
        del self._open[tp]
        self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])


def _consumer_config(committed: bool) -> dict[str, object]:
    return {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        # An offset that is not there is an answer, not a reason to begin elsewhere.
        "auto.offset.reset": "error",
        "queued.max.messages.kbytes": 16384,
        "fetch.wait.max.ms": 50,
    }


def _merge_windows(windows: Iterable[Window]) -> list[Window]:
    """Sorted, without empty and overlapping windows."""
    found: list[Window] = []
    for start, end in sorted(window for window in windows if window[0] < window[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
