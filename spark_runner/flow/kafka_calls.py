"""Blocking calls of a flow: planner, offset samples, MM2's copy of the positions.

Created and used on one background thread; `sample_offsets`, `find_selected` and
`close_sampler` have another. Each call has a deadline.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import FlowSpec
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.planning.selected_topics import SelectedTopic, SelectedTopicFinder
from spark_runner.positions.mm2_export import ConnectOffsetsWriter
from spark_runner.status.foreign_records import (
    ForeignRecordFinder,
    RemoteKey,
    RemotePartition,
)
from spark_runner.status.source_offsets import LogOffsets, OffsetSampler

POSITIONS_DEADLINE_S = 5.0


class MetadataChanges(NamedTuple):
    """What differs from the last plan.

    - `has_changed`: a new plan is due.
    - `recreated`: partitions whose topics were recreated.
    """

    has_changed: bool
    recreated: Mapping[TopicPartition, PartitionError]


class KafkaCalls:
    """All methods block, and raise the errors of the domain."""

    def __init__(
        self, job: JobSpec, owner: str, rates: Mapping[TopicPartition, float] | None
    ) -> None:
        """`rates`: as `Planner` takes them."""
        self._job = job
        self._owner = owner
        self._rates = rates
        self._planner: Planner | None = None
        self._source_sampler: OffsetSampler | None = None
        self._topic_finder: SelectedTopicFinder | None = None
        self._foreign_finder: ForeignRecordFinder | None = None
        self._foreign_due_at = 0.0
        self._mm2_writer: ConnectOffsetsWriter | None = None
        self._planned_from: object = None

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._job, self._owner, self._rates)
        return self._planner

    def open(self, most_slices: int, context: PlanContext) -> Plan:
        """Take the flow over and plan. A failed call starts over the next time."""
        try:
            planner = self.planner
            planner.check_start()
            planner.take_over()
            plan = self.plan(most_slices, {}, {}, context)
            # Connect early: the first stop or pause must not wait for connections.
            self._open_mm2_writer(planner).connect()
            return plan
        except Exception:
            self._planner = None
            raise

    def plan(
        self,
        most_slices: int,
        positions: dict[TopicPartition, int],
        slices: dict[TopicPartition, int],
        context: PlanContext,
    ) -> Plan:
        found = self.planner.snapshot()
        plan = self.planner.plan(
            now=int(time.time() * 1000),
            most_slices=most_slices,
            positions=positions,
            slices=slices,
            context=context,
        )
        self._planned_from = found
        return plan

    def detect_changes(self) -> MetadataChanges:
        """Whether topics, partitions or ids differ from those of the last plan."""
        has_changed = self.planner.snapshot() != self._planned_from
        recreated = self.planner.find_recreated() if has_changed else {}
        return MetadataChanges(has_changed, recreated)

    def is_owner(self) -> bool:
        return self.planner.is_owner()

    def sample_offsets(
        self,
        partitions: list[TopicPartition],
        starts: Collection[TopicPartition],
        headers: Mapping[TopicPartition, int],
        positions: dict[TopicPartition, int],
    ) -> LogOffsets:
        """`positions` are those committed before the sample. Called on a thread of its own."""
        if self._source_sampler is None:
            limit = self._spec().settings.bandwidth_limit_bytes
            self._source_sampler = OffsetSampler(self._job.source, limit)
        return dataclasses.replace(
            self._source_sampler.sample(partitions, starts, headers), positions=positions
        )

    def find_selected(self) -> dict[str, SelectedTopic]:
        """The topics of the source that the filters select now. On the thread of the samples."""
        if self._topic_finder is None:
            self._topic_finder = SelectedTopicFinder(self._spec())
        return self._topic_finder.find()

    def _spec(self) -> FlowSpec:
        job = self._job
        return FlowSpec.build(source=job.source, target=job.target, properties=job.properties)

    def find_foreign_records(
        self, remotes: dict[RemoteKey, RemotePartition]
    ) -> dict[RemoteKey, list[ForeignRange]]:
        """Records of other producers in partitions that the flow does not write at present.

        Skipped for at-least-once delivery and for `skip.replicated`: other records are expected
        there, or they cannot be told from the flow's own.
        """
        settings = self.planner.spec.settings
        began = time.monotonic()
        if settings.delivery != "exactly_once" or settings.skip_replicated:
            return {}
        if began < self._foreign_due_at:
            return {}
        if self._foreign_finder is None:
            self._foreign_finder = ForeignRecordFinder(self._job.target)
        found = self._confirmed(self._foreign_finder, remotes)
        # A scan of many partitions is slow. Spend at most 5 % of the time on it.
        self._foreign_due_at = began + 20 * (time.monotonic() - began)
        return found

    def _confirmed(
        self, finder: ForeignRecordFinder, remotes: dict[RemoteKey, RemotePartition]
    ) -> dict[RemoteKey, list[ForeignRange]]:
        """Only partitions whose position is still the committed one; the others are read again.

        A commit may succeed while its broker dies. Its copier reports the new position only after
        it has read that back, and until then its records look like another producer's.
        """
        found = finder.find(remotes)
        if not found:
            return {}
        try:
            committed = self.planner.committed_positions()
        except Exception:
            # Otherwise the next scan starts after them, and nobody reports them.
            finder.discard(found)
            raise
        stale = {
            key for key in found if committed.get(key[:2]) not in (None, remotes[key].position)
        }
        finder.discard(stale)
        return {key: found[key] for key in found.keys() - stale}

    def copy_positions(self, positions: dict[TopicPartition, int]) -> None:
        """Write the positions for MM2 into `mm2-offsets.<source>.internal`."""
        if self._planner is None:
            raise KafkaRefused("The runner has not taken the flow over yet.", code="not_open")
        self._open_mm2_writer(self._planner).write(positions, deadline_s=POSITIONS_DEADLINE_S)

    def _open_mm2_writer(self, planner: Planner) -> ConnectOffsetsWriter:
        if self._mm2_writer is None:
            self._mm2_writer = ConnectOffsetsWriter(
                self._job.target, planner.offsets_topic, self._job.source.alias
            )
        return self._mm2_writer

    def close_sampler(self) -> None:
        if self._topic_finder is not None:
            self._topic_finder.close()
        if self._source_sampler is not None:
            self._source_sampler.close()

    def close(self) -> None:
        if self._foreign_finder is not None:
            self._foreign_finder.close()
        if self._planner is not None:
            self._planner.close()
