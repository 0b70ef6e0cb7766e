"""Batches, records and bytes by lane, with the reason for each repacked batch."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.flows.lanes import LaneFigure
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch


class LaneCounters:
    """Counts repacked batches. What the partitions counted beyond them went raw."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}

    def count(self, batch: PendingBatch) -> None:
        row = self._rows.get(batch.repack_reason)
        if row is None:
            row = self._rows[batch.repack_reason] = [0, 0, 0]
        row[0] += 1
        row[1] += batch.header[12]
        row[2] += batch.size

    def lanes(self, partitions: Iterable[Partition]) -> tuple[LaneFigure, ...]:
        batches = records = size = 0
        for partition in partitions:
            counts = partition.counts
            batches += counts.batches
            # Includes the open transaction, whose batches are counted above.
            records += counts.records + partition.records
            size += counts.bytes + partition.bytes
        found = []
        for why, row in self._rows.items():
            found.append(
                LaneFigure(lane="repack", why=why, batches=row[0], records=row[1], bytes=row[2])
            )
            batches, records, size = batches - row[0], records - row[1], size - row[2]
        if batches:
            found.insert(
                0, LaneFigure(lane="raw", why="", batches=batches, records=records, bytes=size)
            )
        return tuple(found)
