"""The planner: discovery on both clusters, remote topics, start offsets and slices.

The planner reads both clusters, `domain.topics` decides, and the planner applies the decision. It
never moves a position. A position of another topic with the same name, or outside the source's
range, stops its partition with a reason.

`start.from` applies only to partitions of a flow's very first plan, and is refused if the source
lacks what it names. Partitions found later are copied from their log start.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.flows.slice_packing import assign_slices, packing_weights
from mirrors.domain.gaps.lost_ranges import gap_of_generation
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.migration.start_check import StartRefused
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.plan import TopicPlan, colliding, plan_topics
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.mm2_activity import detect_target_activity
from mirrors.kafka.producers.fence import fence
from mirrors.kafka.protocol.metadata import TopicView, id_text
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.cluster import MetadataPoller
from spark_runner.planning.blocked_topics import Blocker
from spark_runner.planning.end_offsets import EndOffsets
from spark_runner.planning.gaps import GapResolver, PlanContext, truncation_marks
from spark_runner.planning.mm2_import import Mm2Import
from spark_runner.planning.plan import Plan, PlanBuilder
from spark_runner.planning.remote_topics import RemoteTopics
from spark_runner.planning.start_offsets import (
    SourceRanges,
    check_named_offsets,
    first_offsets,
    ranges,
)
from spark_runner.planning.unauthorized_topics import not_visible, with_hidden
from spark_runner.positions.topic import StoredPositions, ensure_topics, read_positions, slice_id
from spark_runner.positions.validation import describe_generation_gap
from spark_runner.positions.writer import PositionsWriter

DEADLINE_S = 10.0


class Planner:
    """Plans one flow. Used by one thread at a time."""

    def __init__(
        self, job: JobSpec, owner: str, rates: Mapping[TopicPartition, float] | None = None
    ) -> None:
        """`rates`: observed bytes per second by partition; without, the backlog is distributed."""
        self._rates = rates
        self.spec = FlowSpec.build(source=job.source, target=job.target, properties=job.properties)
        self._policy = policy_for(self.spec.settings, job.source.alias, job.target.alias)
        self.positions_topic = self._policy.positions_topic()
        self.offsets_topic = self._policy.offsets_topic()
        self._mm2 = Mm2Import(self.offsets_topic, job.source.alias, job.target.alias)
        self._owner = owner
        self._is_first = job.is_first
        self._accepts_writers = job.accepts_writers
        self._stored = StoredPositions({})
        self._first_of_job = True
        self._end_offsets = EndOffsets(self.spec.settings)
        self._slices: dict[TopicPartition, int] = {}
        # Rows that a failed plan found and did not write. The next plan writes them.
        self._unwritten: dict[TopicPartition, Position] = {}
        # Partitions whose decision was applied, until the flow no longer takes them for stopped.
        self._decided: set[TopicPartition] = set()
        self._selection = TopicSelection(self.spec.settings, self._policy)
        self._topics = TopicPlan()
        # Partitions of the selected topics, as last described by this job.
        self._described: dict[str, int] = {}
        self._source = Admin(job.source, client_id="understudy-planner")
        self._target = Admin(job.target, client_id="understudy-planner")
        self._remote = RemoteTopics(self.spec, self._source, self._target)
        self._metadata = MetadataPoller(job.source), MetadataPoller(job.target)
        self._runs_topic = runs_topic(job.source.alias)
        self._writer = PositionsWriter(
            job.target, self.positions_topic, self.spec.name, self._runs_topic
        )
        self._gap_resolver = GapResolver(
            job.source, self._target, self._runs_topic, self._read_positions
        )

    def close(self) -> None:
        for metadata in self._metadata:
            metadata.close()
        self._source.close()
        self._target.close()

    def check_start(self) -> None:
        """Raise StartRefused where another program writes the topics of a flow that never ran.

        Called before fencing, so that another installation of the same flow is not disturbed.
        """
        if self._accepts_writers:
            return
        state = self._target.snapshot(
            [self.positions_topic], now=0, deadline_s=DEADLINE_S, with_configs=False
        )
        stored = StoredPositions({})
        if self.positions_topic in state.topics:
            stored = read_positions(
                self._target, self.positions_topic, deadline_s=DEADLINE_S, committed=False
            )
        is_planned = not stored.is_new or bool(stored.positions)
        if is_planned and not self._is_first:
            return
        source = self._source.snapshot(now=0, deadline_s=DEADLINE_S, with_configs=False)
        signs = detect_target_activity(self.spec, source, self._target, is_planned=is_planned)
        if signs.code:
            raise StartRefused(signs.sentence(), code=signs.code)

    def take_over(self) -> None:
        """Become the owner and fence all earlier copiers. From then on positions do not change."""
        topic, target = self.positions_topic, self._target
        ensure_topics(target, topic, self.offsets_topic, factor=self._internal_factor())
        self._writer.take_over(deadline_s=DEADLINE_S)
        self._writer.write(owner=self._owner, deadline_s=DEADLINE_S)
        previous = read_positions(target, topic, deadline_s=DEADLINE_S, committed=False)
        ids = [slice_id(self.spec.name, index) for index in range(previous.slices or 0)]
        fenced_topics = [(topic, 0), (self._runs_topic, 0)]
        fence(self.spec.target, ids, fenced_topics, deadline_s=DEADLINE_S)
        self._stored = self._read_positions()
        self._mm2.read(target, deadline_s=DEADLINE_S)

    def is_owner(self) -> bool:
        """Whether the target still names this job as the owner. If so, the writer is usable."""
        stored = read_positions(
            self._target, self.positions_topic, deadline_s=DEADLINE_S, committed=False
        )
        is_ours = stored.owner == self._owner
        if is_ours and self._writer.is_broken:
            self._writer.take_over(deadline_s=DEADLINE_S)
        return is_ours

    def committed_positions(self) -> dict[TopicPartition, int]:
        """The positions as the target has them, without those of open transactions."""
        stored = read_positions(self._target, self.positions_topic, deadline_s=DEADLINE_S)
        return {tp: known.position for tp, known in stored.positions.items()}

    def snapshot(self) -> object:
        """A value that changes when a plan could change: names, partition counts, ids of topics."""
        deadline = time.monotonic() + DEADLINE_S
        source, target = (metadata.topics(deadline) for metadata in self._metadata)
        # On the target, only remote topics of this flow count, and what prevents their creation.
        copied = self._topics.copied
        faults = [row.remote_topic or "" for row in self._topics.skipped if row.fault]
        return (
            {name: len(view.leaders) for name, view in source.items()},
            {row.topic: _identity(source.get(row.topic)) for row in copied},
            {
                name: _identity(target.get(name))
                for row in copied
                for name in (row.remote_topic, *row.routes)
            },
            (colliding(faults, target), self._metadata[1].brokers) if faults else None,
        )

    def find_recreated(self) -> dict[TopicPartition, PartitionError]:
        """Partitions whose topics were recreated since the last plan, as of the last snapshot."""
        metadata, alias = self._metadata[0], self.spec.source.alias
        copied = {row.topic for row in self._topics.copied}
        found: dict[TopicPartition, PartitionError] = {}
        for tp, known in self._stored.positions.items():
            view = metadata.views.get(tp[0])
            if tp[0] not in copied or view is None or tp[1] not in view.leaders:
                continue
            now = dataclasses.replace(
                known,
                source_cluster=metadata.cluster_id or known.source_cluster,
                source_topic_id=id_text(view.topic_id) or known.source_topic_id,
            )
            reason = describe_generation_gap(
                known, now, source=alias, target=self.spec.target.alias
            )
            if reason is not None:
                found[tp] = PartitionError(
                    topic=tp[0], partition=tp[1], offset=known.position, state="gap",
                    code="generation", reason=reason, gap=gap_of_generation(known, now),
                )  # fmt: skip
        return found

    def plan(
        self,
        *,
        now: int,
        most_slices: int,
        positions: dict[TopicPartition, int],
        slices: dict[TopicPartition, int],
        context: PlanContext,
    ) -> Plan:
        """`positions`: the flow's positions as reported by its slices.

        `slices`: the slice of each partition that the flow copies, or copied until it stopped.
        """
        self._remote.missing = set()
        self._decided &= context.stopped.keys() | context.skipped.keys()
        rest = {tp: at for tp, at in positions.items() if tp not in self._decided}
        self._stored = self._stored.at(rest)
        source = self._read_source(now)
        builder = self._start_plan(now, source, context)
        builder.apply_remote_configs(self._remote.configs(builder))
        self._start_new_partitions(builder, {new.topic for new in self._topics.create})
        builder.apply_positions(self._stored)
        builder.stop_hidden(self._described)
        self._resolve_gaps(builder, context)
        builder.apply_stops(
            self._end_offsets.find(self._source, builder.work, now=now, deadline_s=DEADLINE_S)
        )
        self._stop_failed(builder, self._end_offsets.unknown)
        source_ranges = ranges(self._source, builder.work, deadline_s=DEADLINE_S)
        self._assign_slices(builder, source_ranges, most_slices, slices)
        self._write()
        self._first_of_job = False
        return self._build(builder, source)

    def _read_source(self, now: int) -> ClusterSnapshot:
        """All topics that the principal may describe, and selected topics that it no longer may.

        Those were copied, or were described by an earlier plan of this job.
        """
        seen = self._source.snapshot(now=now, deadline_s=DEADLINE_S, with_configs=False)
        topics = {topic for topic, _ in self._stored.positions}
        copied = [topic for topic in topics if self._selection.decide(topic).replicated]
        known = [*copied, *self._described]
        return with_hidden(self._source, seen, known, deadline_s=DEADLINE_S)

    def _start_plan(self, now: int, source: ClusterSnapshot, context: PlanContext) -> PlanBuilder:
        """What is copied where, after remote topics are created and extended as far as possible."""
        target = self._target.snapshot(now=now, deadline_s=DEADLINE_S, with_configs=False)
        topics = plan_topics(source, target, self.spec, copied=self._stored.copied_topics)
        blockers: dict[str, Blocker] = {}
        if self._first_of_job:
            self._check_named_offsets(source, topics)
        if topics.create or topics.grow or any(row.fault for row in topics.skipped):
            topics, blockers = self._remote.apply(source, target, topics, self._stored, context)
            target = self._remote.after_changes(now, target, topics, blockers)
        self._topics = topics
        self._note_described(source)
        return PlanBuilder(self.spec, source, target, topics, blockers)

    def _note_described(self, source: ClusterSnapshot) -> None:
        """Remember partition counts: a topic that is hidden later still owes what it owed."""
        topics = self._topics
        blocked = [row.topic for row in topics.skipped if row.fault]
        selected = [*(row.topic for row in topics.copied), *blocked]
        hidden = {name: n for name, n in self._described.items() if name in source.failed}
        seen = {name: view.partitions for name in selected if (view := source.topics.get(name))}
        self._described = hidden | seen

    def _build(self, builder: PlanBuilder, source: ClusterSnapshot) -> Plan:
        plan = builder.build(self._slices, self.positions_topic, self._owner)
        warnings = (*plan.warnings, *self._mm2.warnings, *self._remote.warnings)
        resumed = self._decided & plan.partitions.keys()
        return dataclasses.replace(
            plan,
            until=self._end_offsets.description,
            warnings=warnings,
            resumed=frozenset(resumed),
            not_visible=not_visible(
                self._source, source, self.spec, self._policy, deadline_s=DEADLINE_S
            ),
        )

    def _internal_factor(self) -> int:
        brokers = len(self._target.describe_cluster(deadline_s=DEADLINE_S).nodes)
        wanted = self.spec.settings.replication_factor
        return min(2, brokers) if wanted is None else wanted

    def _check_named_offsets(self, seen: ClusterSnapshot, topics: TopicPlan) -> None:
        is_new = self._stored.is_new
        check_named_offsets(
            self._source, self.spec, seen, topics, is_new=is_new, deadline_s=DEADLINE_S
        )

    def _start_new_partitions(self, builder: PlanBuilder, created: set[str]) -> None:
        """Start offsets of new partitions. They are written before anything is copied."""
        rows = self._mm2.rows(builder, self._stored, created, self._target, deadline_s=DEADLINE_S)
        self._stop_failed(builder, self._mm2.waiting)
        met = self._stored.positions.keys() | rows.keys()
        new = [tp for tp in builder.work if tp not in met]
        first_plan = self._stored.is_new
        starts = first_offsets(
            self._source, self.spec.settings, new, first_plan=first_plan, deadline_s=DEADLINE_S
        )
        if first_plan and self.spec.settings.start_from != "earliest":
            # All or nothing: a partition left out now would start at its log start later, and not
            # where start.from says.
            starts.raise_first()
        self._stop_failed(builder, starts.failed)
        begun = {tp: builder.row(tp, offset) for tp, offset in starts.done.items()}
        # Removed positions start over. Other partitions without a position may have lost theirs.
        never_removed = {at: row for at, row in begun.items() if at not in self._stored.removed}
        rows |= begun | self._gap_resolver.find_lost_positions(builder, never_removed)
        self._stored = self._stored.with_rows(rows.values())
        self._unwritten |= rows

    def _stop_failed(
        self, builder: PlanBuilder, failed: Mapping[TopicPartition, UnderstudyError]
    ) -> None:
        """Stop partitions whose requests failed. Others are not affected, and these are retried."""
        for tp, error in failed.items():
            if tp in builder.work:
                known = self._stored.positions.get(tp)
                offset = None if known is None else known.position
                builder.stop(tp, offset, "faulted", error.code, error.message)

    def _resolve_gaps(self, builder: PlanBuilder, context: PlanContext) -> None:
        """Find the ranges of gaps, and apply decisions."""
        partitions = [*builder.work, *builder.stopped]
        source_ranges = ranges(self._source, partitions, deadline_s=DEADLINE_S)
        resolved = self._gap_resolver.resolve(
            builder,
            self._stored,
            source_ranges,
            context,
            missing=self._remote.missing,
            is_idle=self._first_of_job,
        )
        rows = resolved.rows
        # Without a topic of runs, no map has to start again.
        has_runs = builder.target_has(self._runs_topic)
        marks = truncation_marks(rows, self._stored) if has_runs else ()
        # Write before anybody relies on the rows.
        self._writer.write([*rows, *resolved.marked], marks=marks, deadline_s=DEADLINE_S)
        self._decided |= {(row.topic, row.partition) for row in rows}
        self._stored = self._stored.with_rows([*rows, *resolved.marked])
        for row in (*rows, *resolved.marked):
            self._unwritten.pop((row.topic, row.partition), None)

    def _read_positions(self) -> StoredPositions:
        return read_positions(self._target, self.positions_topic, deadline_s=DEADLINE_S)

    def _assign_slices(
        self,
        builder: PlanBuilder,
        source_ranges: SourceRanges,
        most: int,
        present: dict[TopicPartition, int],
    ) -> None:
        weights: Mapping[TopicPartition, float]
        if self._rates is not None:
            weights = packing_weights(self._rates, builder.work)
        else:
            work = builder.work.items()
            weights = {tp: source_ranges.remaining(tp, row.start) for tp, row in work}
        assigned = assign_slices(weights, min(most, self.spec.settings.tasks_max), present)
        # A stopped partition keeps its slice: only fencing allows another one.
        self._slices = {**present, **assigned}

    def _write(self) -> None:
        """The target knows the new slice count before an additional slice starts."""
        count = max(self._slices.values(), default=-1) + 1
        changed = count if count != self._stored.slices else None
        rows = self._unwritten.values()
        self._writer.write(rows, slices=changed, deadline_s=DEADLINE_S)
        self._unwritten = {}
        self._stored = dataclasses.replace(self._stored, slices=count)


def _identity(view: TopicView | None) -> tuple[bytes, int] | None:
    return None if view is None else (view.topic_id, len(view.leaders))
