"""Reports of a slice to its driver: progress each second, and the result at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Literal

from mirrors.domain.flows.latency import add_up
from mirrors.domain.flows.speed_limits import UNMEASURED, SliceSpeed
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.source.throttle import Throttle
from spark_runner.ipc.messages import EndedBecause, Figures, PartitionFigure, SliceResult
from spark_runner.ipc.task_channel import Channel

_REASONS: dict[str, str] = {
    "deadline": "The epoch has reached its deadline.",
    "stop": "The flow was stopped.",
    "replan": "The flow is planned again.",
    "handover": "The next epoch takes over.",
    "lost_control": "The connection to the driver was lost.",
}


class SliceReport:
    """Builds reports from the partitions. Only committed records count."""

    def __init__(
        self,
        partitions: list[Partition],
        channel: Channel,
        lane_counters: LaneCounters,
        throttle: Throttle,
        duplicates: DuplicateCounter,
    ) -> None:
        self._throttle = throttle
        self._duplicates = duplicates
        self._partitions = partitions
        # With the partitions of further target topics.
        self._members = [member for partition in partitions for member in partition.members]
        self._lane_counters = lane_counters
        self._channel = channel
        self._reported: dict[Partition, int] = {}
        self._reported_skipped: dict[Partition, int] = {}
        self._reported_errors: set[Partition] = set()
        # What limits the loop, while there is one.
        self.speed: Callable[[float], SliceSpeed] | None = None
        # Until the committed positions are read, the partitions have the planned ones.
        self.knows_positions = False

    def report(self, state: Literal["connecting", "ready", "copying", "stopping"]) -> None:
        moved = [
            partition
            for partition in self._known()
            if self._reported.get(partition) != partition.position
            or any(member.foreign_records for member in partition.members)
        ]
        self._reported.update({partition: partition.position for partition in moved})
        stopped = [
            partition for partition in self._stopped() if partition not in self._reported_errors
        ]
        self._reported_errors.update(stopped)
        self._channel.report(
            Figures(
                as_of=int(time.time() * 1000),
                pid=os.getpid(),
                state=state,
                records=self._records(),
                bytes=self._bytes(),
                partitions=tuple(map(self._figure, moved)),
                errors=tuple(
                    partition.error for partition in stopped if partition.error is not None
                ),
                lanes=self._lane_counters.lanes(self._members),
                limited=self._throttle.is_limited,
                quota=self._throttle.quota,
                weight=self._throttle.weight,
                speed=self.speed(time.monotonic()) if self.speed is not None else UNMEASURED,
            )
        )

    def result(self, ended: EndedBecause, reason: str = "", code: str = "") -> SliceResult:
        return SliceResult(
            ended_because=ended,
            reason=reason or _REASONS.get(ended, ""),
            code=code,
            records=self._records(),
            bytes=self._bytes(),
            partitions=tuple(map(self._figure, self._known())),
            errors=tuple(
                partition.error for partition in self._stopped() if partition.error is not None
            ),
            lanes=self._lane_counters.lanes(self._members),
        )

    def _stopped(self) -> list[Partition]:
        """Stopped partitions whose last records are committed; before that the error's offset is
        too high."""
        return [
            partition
            for partition in self._partitions
            if partition.error is not None and not partition.has_moved
        ]

    def _known(self) -> list[Partition]:
        return self._partitions if self.knows_positions else []

    def _records(self) -> int:
        return sum(partition.counts.committed_records for partition in self._members)

    def _bytes(self) -> int:
        return sum(partition.counts.committed_bytes for partition in self._members)

    def _figure(self, partition: Partition) -> PartitionFigure:
        reported = self._reported_skipped.get(partition, 0)
        self._reported_skipped[partition] = partition.skipped.records
        found = [
            found._replace(route="" if member is partition else member.remote_topic)
            for member in partition.members
            for found in member.take_foreign_records()
        ]
        counts = [member.counts for member in partition.members]
        times = [one.committed_timestamp for one in counts if one.committed_timestamp is not None]
        return PartitionFigure(
            topic=partition.topic,
            partition=partition.partition,
            position=partition.position,
            timestamp=max(times, default=None),
            end=partition.high_watermark,
            stable_end=partition.last_stable_offset,
            lane="repack" if partition.repack_reason else "raw",
            why=partition.repack_reason,
            left_out=partition.skipped.records - reported,
            foreign=tuple(found),
            repeats=self._duplicates.count(partition),
            dead_letters=partition.dead_letters,
            next_downstream=partition.committed_downstream
            if partition.committed_downstream >= 0
            else None,
            records=sum([one.committed_records for one in counts]),
            bytes=sum([one.committed_bytes for one in counts]),
            latency=add_up([one.take_latency() for one in counts]),
        )
