"""Offset ranges that a simulation reads: around each group's offset, and the expected loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.plan_types import GroupPartitionPlan, PartitionPlan
from mirrors.kafka.reading.samples import Window
from mirrors.services.failover.simulation.temporary_groups import AFTER

BEFORE = 8
# A transaction marker may follow each record.
STRETCH = 2
# Maximum to read to count lost records; beyond it offsets give an upper bound.
COUNT_A_PARTITION = 20_000
COUNT_IN_ALL = 200_000


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Offsets of one source partition: log start (`start`), replicated (`position`), committed.

    `owed`: the first offset that the target lacks, None where unknown.
    """

    start: int
    position: int
    end: int | None
    owed: int | None = None

    @property
    def lost(self) -> Window:
        """The lost range that is still readable."""
        return max(self.start, self.owed or 0), self.end or 0

    @property
    def deleted(self) -> int:
        """Offsets that are owed and that the source has deleted."""
        return 0 if self.owed is None else max(0, self.start - self.owed)


def countable_group_partitions(
    partitions: Iterable[PartitionPlan], bounds: Mapping[TopicPartition, Bounds]
) -> set[TopicPartition]:
    """The partitions whose lost records are few enough to read, fewest first."""
    left, chosen = COUNT_IN_ALL, set()
    for row in sorted(partitions, key=lambda row: row.loss or 0):
        loss = row.loss or 0
        if row.certainty == "observed" and 0 < loss <= min(left, COUNT_A_PARTITION):
            left -= loss
            chosen.add((row.topic, row.partition))
    return chosen


def source_windows(
    group_partitions: Iterable[GroupPartitionPlan], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, list[Window]]:
    """By partition, the offsets [start, end) to read around groups."""
    windows: dict[TopicPartition, list[Window]] = {}
    for row in group_partitions:
        at = bounds.get((row.topic, row.partition))
        if at is None or row.source_offset is None or row.downstream_offset is None:
            continue
        near = min(row.source_offset, at.position)
        start = max(at.start, near - STRETCH * BEFORE)
        windows.setdefault((row.topic, row.partition), []).append((start, near_end(near, at)))
    return windows


def near_end(offset: int, at: Bounds) -> int:
    return min(at.position, offset + STRETCH * AFTER)


def lost_windows(
    countable: Iterable[TopicPartition], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, list[Window]]:
    """The ranges that would be lost."""
    return {tp: [bounds[tp].lost] for tp in countable}


def further_windows(
    starts: Mapping[TopicPartition, Iterable[int]], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, list[Window]]:
    """Ranges up to the position, where no record is near a group (compacted, aborted).

    A few records from each start suffice; those after the next start are read from there.
    """
    found: dict[TopicPartition, list[Window]] = {}
    for tp, rows in starts.items():
        firsts = sorted(set(rows))
        found[tp] = list(zip(firsts, [*firsts[1:], bounds[tp].position], strict=True))
    return found


def target_windows(
    group_partitions: Iterable[GroupPartitionPlan], starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[Window]]:
    windows: dict[TopicPartition, list[Window]] = {}
    for row in group_partitions:
        tp = (row.remote_topic, row.partition)
        if row.downstream_offset is not None and tp in starts:
            start = max(starts[tp], row.downstream_offset - STRETCH * BEFORE)
            windows.setdefault(tp, []).append((start, row.downstream_offset))
    return windows


def merge(windows: Iterable[Window]) -> list[Window]:
    """Merge windows that overlap or are close."""
    found: list[Window] = []
    for start, end in sorted(window for window in windows if window[0] < window[1]):
        if found and start <= found[-1][1] + BEFORE:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
