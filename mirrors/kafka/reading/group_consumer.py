"""Reads samples as a consumer group would: from its committed offsets on.

Nothing is committed here, and the group gets no member.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping

import confluent_kafka
from confluent_kafka import OFFSET_STORED, Consumer, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.read_verification import ReadRecord
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.reading.samples import Tick, mark_unread, messages, open_consumer, read_record_of

# A record is there before the marker that commits it: so long what is short of its end is waited
# for. Beyond that, a transaction of somebody else is open before it.
MARKER_WAIT_S = 2.0


@dataclasses.dataclass
class GroupReading:
    """The records that the group would read of one partition, and when the first one arrived."""

    seen: list[ReadRecord] = dataclasses.field(default_factory=list)
    first_ms: int | None = None
    ended: bool = False


def read_as_group(
    spec: ClusterSpec,
    group: str,
    ends: Mapping[TopicPartition, int],
    *,
    at_most: int,
    deadline_s: float,
    tick: Tick = lambda: None,
) -> Partial[TopicPartition, GroupReading]:
    """Read up to `at_most` records per partition, from the group's committed offsets on.

    Reading of a partition also stops at its end in `ends`, so later records are left out.
    """
    with contextlib.closing(open_consumer(spec, group, True)) as consumer:
        reader = _GroupReader(spec, consumer, ends, at_most)
        while reader.left:
            tick()
            if time.monotonic() - reader.began >= deadline_s:
                mark_unread(spec, reader.left, reader.result)
                break
            reader.read_on()
    return reader.result


class _GroupReader:
    def __init__(
        self,
        spec: ClusterSpec,
        consumer: Consumer,
        ends: Mapping[TopicPartition, int],
        at_most: int,
    ) -> None:
        self.result: Partial[TopicPartition, GroupReading] = Partial()
        self.result.done = {tp: GroupReading() for tp in ends}
        self.left = dict(ends)
        self.began = time.monotonic()
        self._spec = spec
        self._consumer = consumer
        self._at_most = at_most
        # Since when there is no more to read, although the end is further on.
        self._short: dict[TopicPartition, float] = {}
        consumer.assign([confluent_kafka.TopicPartition(*tp, OFFSET_STORED) for tp in self.left])

    def read_on(self) -> None:
        """Handle records that have arrived, of the remaining partitions."""
        for tp, message, reached in messages(self._consumer, self._spec, self.result.failed):
            if tp not in self.left:
                continue
            if reached is None:
                del self.result.done[tp]
                self._unassign(tp)
            elif self._note(tp, message, reached):
                self._unassign(tp)
        now = time.monotonic()
        for tp in [at for at, since in self._short.items() if now - since >= MARKER_WAIT_S]:
            self.result.done[tp].ended = True
            self._unassign(tp)

    def _note(self, tp: TopicPartition, message: Message | None, reached: int) -> bool:
        """Return whether this was the last record wanted of the partition."""
        reading, end = self.result.done[tp], self.left[tp]
        if message is not None:
            self._short.pop(tp, None)
            if reached <= end:
                if reading.first_ms is None:
                    reading.first_ms = round((time.monotonic() - self.began) * 1000)
                reading.seen.append(read_record_of(message))
        reading.ended = reached >= end
        if message is None and not reading.ended:
            self._short.setdefault(tp, time.monotonic())
        return reading.ended or len(reading.seen) >= self._at_most

    def _unassign(self, tp: TopicPartition) -> None:
        del self.left[tp]
        self._short.pop(tp, None)
        self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])
