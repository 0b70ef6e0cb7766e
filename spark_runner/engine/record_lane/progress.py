"""Progress of each partition of a slice: committed, pending, or stopped and why."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.flows.lanes import Lane
from mirrors.domain.gaps.lost_ranges import GapFacts, uncopyable
from spark_runner.engine.identity_checks import check_owner
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.recovery.resume_offset import resume
from spark_runner.engine.setup import partition_of
from spark_runner.engine.source.throttle import Throttle
from spark_runner.ipc.messages import (
    EndedBecause,
    ErrorState,
    Figures,
    PartitionError,
    PartitionFigure,
    PartitionWork,
    SliceResult,
    SliceWork,
)
from spark_runner.positions.topic import StoredPositions


class CopiedPartition:
    """One partition. `position` is committed; `next` becomes the position with the next commit."""

    __slots__ = (
        "bytes",
        "committed_bytes",
        "committed_records",
        "error",
        "next",
        "next_timestamp",
        "partition",
        "position",
        "records",
        "refused",
        "timestamp",
        "work",
    )

    def __init__(self, work: PartitionWork, partition: Partition) -> None:
        self.work = work
        # What is known about the remote partition.
        self.partition = partition
        self.position = self.next = work.start
        self.timestamp: int | None = None
        self.next_timestamp: int | None = None
        # Of the open transaction, and of all that this epoch has committed.
        self.records = self.bytes = 0
        self.committed_records = self.committed_bytes = 0
        # `refused`: copy up to its offset, then stop; `error`: stopped.
        self.refused: PartitionError | None = None
        self.error: PartitionError | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.work.topic, self.work.partition

    @property
    def is_read(self) -> bool:
        return self.work.stop is not None and self.next >= self.work.stop

    @property
    def has_moved(self) -> bool:
        return self.next != self.position

    def roll_back(self) -> None:
        self.next = self.position
        self.next_timestamp = self.timestamp
        self.records = self.bytes = 0
        self.partition.rewind(self.position)

    def count(self, offset: int, timestamp: int, size: int) -> None:
        self.next = offset + 1
        self.next_timestamp = timestamp
        self.records += 1
        self.bytes += size
        self.partition.note_record_timestamp(timestamp)


class Progress:
    """All partitions of one epoch of one slice."""

    def __init__(
        self, work: SliceWork, lane: Lane, throttle: Throttle, repeats: DuplicateCounter
    ) -> None:
        self._throttle = throttle
        self._duplicates = repeats
        self._work = work
        self._lane = lane
        self._unreported: set[TopicPartition] = set()
        self._new_errors: list[PartitionError] = []
        # Until the committed positions are read, the parts have the planned ones.
        self._knows_positions = False
        self.records = 0
        self.bytes = 0
        producer = work.spec.settings.producer
        parts = [CopiedPartition(row, partition_of(row, producer)) for row in work.partitions]
        self.parts = {part.topic_partition: part for part in parts}
        self._by_partition = {part.partition: part for part in parts}

    def start_from(self, stored: StoredPositions) -> None:
        """Start at the committed positions, else the planned ones. Another generation stops the
        partition."""
        check_owner(self._work, stored.owner)
        self._knows_positions = True
        self._unreported.update(self.parts)
        for tp, part in self.parts.items():
            resume(part.partition, stored.positions.get(tp), self._work)
            part.position = part.next = part.partition.position
            if part.partition.error is not None:
                self._stopped(part, part.partition.error)

    def active(self) -> Iterator[CopiedPartition]:
        return (part for part in self.parts.values() if part.error is None and not part.is_read)

    def moved(self) -> list[CopiedPartition]:
        return [part for part in self.parts.values() if part.has_moved]

    def stop(
        self,
        part: CopiedPartition,
        offset: int | None,
        state: ErrorState,
        code: str,
        reason: str,
        gap: GapFacts | None = None,
    ) -> None:
        """Stop this partition; the others continue."""
        error = PartitionError(
            topic=part.work.topic,
            partition=part.work.partition,
            offset=offset,
            state=state,
            code=code,
            reason=reason,
            gap=gap,
        )
        self._stopped(part, error)

    def stop_rejected(self, part: CopiedPartition) -> None:
        """Everything before the rejected record is copied."""
        error = part.refused
        if error is not None:
            gap = error.gap and dataclasses.replace(error.gap, position=part.next)
            self._stopped(part, dataclasses.replace(error, gap=gap))

    def stop_truncated(self, truncated: Mapping[Partition, StopReason]) -> None:
        for partition, it in truncated.items():
            self.stop(
                self._by_partition[partition], it.offset, it.state, it.code, it.reason, it.gap
            )

    def _stopped(self, part: CopiedPartition, error: PartitionError) -> None:
        part.error = error
        part.partition.stop(error)
        self._new_errors.append(error)

    def refuse(
        self, part: CopiedPartition, offset: int, code: str, reason: str, *, is_record_error: bool
    ) -> None:
        """Stop at this offset. `is_record_error`: the cause is in the bytes of this record."""
        resets = part.partition.resets
        part.refused = PartitionError(
            topic=part.work.topic,
            partition=part.work.partition,
            offset=offset,
            state="faulted",
            code=code,
            reason=reason,
            gap=uncopyable("refused", offset, resets, behind=offset + 1)
            if is_record_error
            else None,
        )

    def committed(self, parts: Iterable[CopiedPartition]) -> None:
        for part in parts:
            part.position, part.timestamp = part.next, part.next_timestamp
            self.records += part.records
            self.bytes += part.bytes
            part.committed_records += part.records
            part.committed_bytes += part.bytes
            part.records = part.bytes = 0
            self._unreported.add(part.topic_partition)

    def roll_back(self) -> None:
        for part in self.parts.values():
            part.roll_back()

    def has_changes(self) -> bool:
        return bool(self._unreported or self._new_errors)

    def figures(self, state: Literal["connecting", "ready", "copying", "stopping"]) -> Figures:
        """What moved since the last call."""
        moved, self._unreported = self._unreported, set()
        errors, self._new_errors = self._new_errors, []
        return Figures(
            as_of=int(time.time() * 1000),
            pid=os.getpid(),
            state=state,
            records=self.records,
            bytes=self.bytes,
            partitions=tuple(self._figure(self.parts[tp]) for tp in moved),
            errors=tuple(errors),
            limited=self._throttle.is_limited,
            quota=self._throttle.quota,
        )

    def result(self, ended: EndedBecause, reason: str, code: str = "") -> SliceResult:
        return SliceResult(
            ended_because=ended,
            reason=reason,
            code=code,
            records=self.records,
            bytes=self.bytes,
            partitions=tuple(
                self._figure(part) for part in self.parts.values() if self._knows_positions
            ),
            errors=tuple(part.error for part in self.parts.values() if part.error is not None),
        )

    def _figure(self, part: CopiedPartition) -> PartitionFigure:
        return PartitionFigure(
            topic=part.work.topic,
            partition=part.work.partition,
            position=part.position,
            timestamp=part.timestamp,
            lane=self._lane,
            repeats=self._duplicates.count(part.partition),
            dead_letters=part.partition.dead_letters,
            records=part.committed_records,
            bytes=part.committed_bytes,
            latency=part.partition.counts.take_latency(),
        )
