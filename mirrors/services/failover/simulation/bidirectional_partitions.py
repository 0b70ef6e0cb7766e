"""Verification of partitions with records of both directions, record by record.

After a failback the two logs have different orders, so they cannot be compared in sequence. The
maps of both flows say which records correspond; their content says whether they are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failback.mixed_partitions import MixedPartition, verify_mixed
from mirrors.domain.failover.plan_types import GroupPartitionPlan
from mirrors.domain.failover.read_verification import ReadRecord, ReadVerification
from mirrors.kafka.reading.samples import Window
from mirrors.models import Flow
from mirrors.services.failover.simulation.offset_ranges import BEFORE, STRETCH
from mirrors.services.failover.simulation.temporary_groups import Key, Readings
from mirrors.services.offsets.reverse_translation import ReverseMaps, reverse_maps_of


class BidirectionalPartitions:
    """The group-partitions that both flows wrote to, with the counterparts of their records."""

    def __init__(
        self, flow: Flow, group_partitions: Iterable[GroupPartitionPlan], readings: Readings
    ) -> None:
        rows = [row for row in group_partitions if row.key in readings.done]
        ways = reverse_maps_of(flow, {(row.topic, row.partition) for row in rows}) if rows else None
        self._twins: dict[Key, dict[int, int]] = {}
        for row in rows:
            tp = (row.topic, row.partition)
            if ways is not None and ways.knows(tp) and _is_home(ways, row):
                seen = readings.done[row.key].seen
                start = (row.downstream_offset or 0) - STRETCH * BEFORE
                end = seen[-1].offset + 1 if seen else row.downstream_offset or 0
                self._twins[row.key] = ways.twins(tp, max(0, start), end)

    def has(self, row: GroupPartitionPlan) -> bool:
        return row.key in self._twins

    def windows(self) -> dict[TopicPartition, list[Window]]:
        """What has to be read on the source, to compare."""
        found: dict[TopicPartition, list[Window]] = {}
        for (_, topic, number, _), twins in self._twins.items():
            found.setdefault((topic, number), []).extend((at, at + 1) for at in twins.values())
        return found

    def prove(
        self,
        row: GroupPartitionPlan,
        *,
        after: list[ReadRecord],
        before: list[ReadRecord],
        theirs: Mapping[int, ReadRecord],
        keeps_time: bool,
    ) -> ReadVerification:
        return verify_mixed(
            MixedPartition(
                stands=row.source_offset or 0,
                after=after,
                before=before,
                twins=self._twins[row.key],
                theirs=theirs,
                again=row.re_reads or 0,
                keeps_time=keeps_time,
            )
        )


def _is_home(ways: ReverseMaps, row: GroupPartitionPlan) -> bool:
    return ways.home_of((row.topic, row.partition)) == (row.remote_topic, row.partition)
