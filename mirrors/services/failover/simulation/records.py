"""Records of both clusters to compare: around groups, further on, and the expected loss."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.plan import FailoverPlan
from mirrors.domain.failover.read_verification import ReadRecord
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.reading.samples import Window, read_windows
from mirrors.services.failover.plan_inputs import PlanInputs
from mirrors.services.failover.simulation.bidirectional_partitions import BidirectionalPartitions
from mirrors.services.failover.simulation.offset_ranges import (
    Bounds,
    further_windows,
    merge,
    near_end,
    source_windows,
)
from mirrors.services.failover.simulation.temporary_groups import AFTER

DEADLINE_S = 30.0
Tick = Callable[..., None]


class RecordIndex:
    """Records of partitions, indexed by offset."""

    def __init__(self, found: Partial[TopicPartition, list[ReadRecord]]) -> None:
        self._found = found.done
        self._offsets = {tp: [row.offset for row in rows] for tp, rows in found.done.items()}
        self.failed = found.failed

    def between(self, tp: TopicPartition, start: int, end: int) -> list[ReadRecord]:
        offsets = self._offsets.get(tp, [])
        rows = self._found.get(tp, [])
        return rows[bisect.bisect_left(offsets, start) : bisect.bisect_left(offsets, end)]

    def by_offset(self, tp: TopicPartition) -> dict[int, ReadRecord]:
        return {row.offset: row for row in self._found.get(tp, [])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledRecords:
    """Records read: of the source around groups (`theirs`), `further` on where none are near, and
    those that would be `lost`."""

    inputs: PlanInputs
    bounds: Mapping[TopicPartition, Bounds]
    theirs: RecordIndex
    further: RecordIndex
    ours: RecordIndex
    lost: RecordIndex


def read_source(
    source: ClusterSpec,
    inputs: PlanInputs,
    plan: FailoverPlan,
    bounds: Mapping[TopicPartition, Bounds],
    mixed: BidirectionalPartitions,
    tick: Tick,
) -> tuple[RecordIndex, RecordIndex]:
    """Records around each group; where there are none, the next ones."""
    if inputs.silence:
        return RecordIndex(Partial()), RecordIndex(Partial())
    told = [row for row in plan.places if (row.topic, row.partition) not in inputs.undescribed]
    # The source no longer holds the records around an expired offset.
    plain = [row for row in told if not mixed.has(row) and row.outcome != "expired"]
    windows = source_windows(plain, bounds)
    for tp, more in mixed.windows().items():
        windows.setdefault(tp, []).extend(more)
    theirs = read(source, windows, tick, committed=inputs.committed)
    starts: dict[TopicPartition, list[int]] = {}
    for row in plain:
        tp, offset = (row.topic, row.partition), row.source_offset or 0
        if tp not in windows or tp in theirs.failed:
            continue
        end = near_end(offset, bounds[tp])
        if offset < end < bounds[tp].position and not theirs.between(tp, offset, end):
            starts.setdefault(tp, []).append(end)
    windows = further_windows(starts, bounds)
    return theirs, read(source, windows, tick, committed=inputs.committed, at_most=AFTER)


def read(
    spec: ClusterSpec,
    windows: Mapping[TopicPartition, list[Window]],
    tick: Tick,
    *,
    committed: bool = True,
    at_most: int | None = None,
    deadline_s: float = DEADLINE_S,
) -> RecordIndex:
    # Windows with a limit on records are read separately: each starts at its own offset.
    merged = {tp: merge(rows) if at_most is None else rows for tp, rows in windows.items()}
    try:
        return RecordIndex(
            read_windows(
                spec,
                merged,
                deadline_s=deadline_s,
                committed=committed,
                at_most=at_most,
                tick=tick,
            )
        )
    except UnderstudyError as error:
        if error.code in {"stopped", "timeout"}:
            raise
        return RecordIndex(Partial(failed=dict.fromkeys(merged, error)))
