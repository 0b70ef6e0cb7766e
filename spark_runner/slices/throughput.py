"""Records and bytes that one slice has copied over all epochs, and the current rates."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Sequence
from typing import Self

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.flows.lanes import LaneFigure, counter_increase
from spark_runner.ipc.messages import Figures, SliceResult

RATE_OVER_S = 5.0


@dataclasses.dataclass(frozen=True)
class Amount:
    """Copied records and bytes, and the lanes that they took."""

    records: int = 0
    bytes: int = 0
    lanes: Sequence[LaneFigure] = ()
    # Records and bytes by partition. A report has only partitions that moved.
    partitions: dict[TopicPartition, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, message: Figures | SliceResult) -> Self:
        partitions = {
            (row.topic, row.partition): (row.records, row.bytes) for row in message.partitions
        }
        return cls(message.records, message.bytes, message.lanes, partitions)

    def since(self, before: Self) -> Self:
        """Never negative: the result of a job that Spark gave up counts no records."""
        return dataclasses.replace(
            self,
            records=max(0, self.records - before.records),
            bytes=max(0, self.bytes - before.bytes),
            lanes=counter_increase(before.lanes, self.lanes),
            partitions={
                tp: (max(0, records - known[0]), max(0, size - known[1]))
                for tp, (records, size) in self.partitions.items()
                if (known := before.partitions.get(tp, (0, 0))) < (records, size)
            },
        )


class Throughput:
    """Sums the epochs of a slice. Each epoch counts from zero, and two epochs may report at
    once."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._counted: dict[int, Amount] = {}
        self._marks: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])

    def count(self, epoch: int, message: Figures | SliceResult) -> Amount:
        """What was added since the last report of this epoch."""
        total, before = Amount.of(message), self._counted.get(epoch, Amount())
        growth = total.since(before)
        if isinstance(message, SliceResult):
            self._counted = {number: one for number, one in self._counted.items() if number > epoch}
        else:
            before.partitions.update(total.partitions)
            self._counted[epoch] = dataclasses.replace(total, partitions=before.partitions)
        self.records += growth.records
        self.bytes += growth.bytes
        self._marks.append((time.monotonic(), self.records, self.bytes))
        return growth

    def rates(self) -> tuple[float, float]:
        now = time.monotonic()
        while len(self._marks) > 1 and self._marks[1][0] < now - RATE_OVER_S:
            self._marks.popleft()
        since, records, size = self._marks[0]
        span = max(RATE_OVER_S, now - since)
        return (self.records - records) / span, (self.bytes - size) / span
