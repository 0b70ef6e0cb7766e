"""The plan of a flow, and its builder: each partition has work, or a reason why it is stopped."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Mapping

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.formatting import short_name
from mirrors.domain.gaps.lost_ranges import GapFacts, gap_of_generation, gap_of_range, stored_gap
from mirrors.domain.internal_topics.records import Position, RoutePosition
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.runners.job_files import TopicStatus
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.plan import CopiedTopic, SkippedTopic, TopicPlan
from spark_runner.ipc.messages import ErrorState, PartitionError, PartitionWork, RouteWork
from spark_runner.planning.blocked_topics import CANNOT_BE_CREATED, NOT_DESCRIBED, Blocker
from spark_runner.planning.start_offsets import SourceRanges
from spark_runner.positions.topic import StoredPositions
from spark_runner.positions.validation import describe_gap, describe_generation_gap

# Codes of topics and partitions that are not replicated and owe nothing.
DELETED_ON_SOURCE = "deleted_on_source"
FILTERED = "filtered"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to copy in which slice; what is not copied, and why."""

    source_cluster_id: str
    target_cluster_id: str
    positions_topic: str
    owner: str
    partitions: dict[TopicPartition, PartitionWork]
    slices: dict[TopicPartition, int]
    stopped: dict[TopicPartition, PartitionError]
    topics: tuple[TopicStatus, ...]
    warnings: tuple[str, ...]
    # Partitions that resume from another position by an operator's decision.
    resumed: frozenset[TopicPartition] = frozenset()
    # The end of a bounded run, for the status. Empty if it has none yet.
    until: str = ""
    # Partitions that were copied and that their topic no longer has, each with a sentence.
    deleted: Mapping[TopicPartition, str] = dataclasses.field(default_factory=dict)
    # The permission that the principal lacks to see topics that the flow may select.
    not_visible: str = ""

    @property
    def slice_count(self) -> int:
        return max(self.slices.values(), default=-1) + 1


class PlanBuilder:
    """A plan in progress: partitions with work, and stopped partitions with reasons."""

    def __init__(
        self,
        spec: FlowSpec,
        source: ClusterSnapshot,
        target: ClusterSnapshot,
        topics: TopicPlan,
        blockers: Mapping[str, Blocker],
    ) -> None:
        """`blockers`: by remote topic, why it could not be created or extended."""
        self._spec = spec
        self._source = source
        self._target = target
        self._topics = topics
        self._blockers = blockers
        self._policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        self._selection = TopicSelection(spec.settings, self._policy)
        self.work: dict[TopicPartition, PartitionWork] = {}
        self.stopped: dict[TopicPartition, PartitionError] = {}
        # The work of stopped partitions. A decision may restore it.
        self.stopped_work: dict[TopicPartition, PartitionWork] = {}
        # Copied partitions that the source no longer has, by topic.
        self._deleted: dict[str, list[int]] = {}
        for topic in topics.copied:
            self._add(topic)
        for skipped in topics.skipped:
            if skipped.fault:
                self._stop_topic(skipped)

    def stop(
        self,
        tp: TopicPartition,
        offset: int | None,
        state: ErrorState,
        code: str,
        reason: str,
        gap: GapFacts | None = None,
    ) -> None:
        error = PartitionError(
            topic=tp[0],
            partition=tp[1],
            offset=offset,
            state=state,
            code=code,
            reason=reason,
            gap=gap,
        )
        self.stop_with(tp, error)

    def stop_with(self, tp: TopicPartition, error: PartitionError) -> None:
        if (work := self.work.pop(tp, None)) is not None:
            self.stopped_work[tp] = work
        self.stopped[tp] = error

    def resume(self, tp: TopicPartition, at: int) -> Position:
        """A stopped partition gets its work back, from this offset on."""
        self.work[tp] = dataclasses.replace(self.stopped_work.pop(tp), start=at)
        del self.stopped[tp]
        return self.row(tp, at)

    def row(self, tp: TopicPartition, offset: int) -> Position:
        work = self.work[tp]
        return Position(
            topic=work.topic,
            partition=work.partition,
            position=offset,
            source_cluster=self._source.cluster_id,
            source_topic_id=work.topic_id,
            target_cluster=self._target.cluster_id,
            target_topic_id=work.remote_topic_id,
            routes=tuple(
                RoutePosition(route.remote_topic, route.remote_topic_id) for route in work.routes
            ),
        )

    def target_has(self, topic: str) -> bool:
        """Whether the target has this topic."""
        return topic in self._target.topics

    def apply_remote_configs(self, configs: dict[str, dict[str, str]]) -> None:
        """Set the settings of remote topics that a lane must respect."""
        for tp, work in self.work.items():
            self.work[tp] = dataclasses.replace(
                work,
                remote_configs=configs.get(work.remote_topic, {}),
                routes=tuple(
                    dataclasses.replace(route, remote_configs=configs.get(route.remote_topic, {}))
                    for route in work.routes
                ),
            )

    def apply_positions(self, stored: StoredPositions) -> None:
        """Set the positions. A position of another generation stops its partition."""
        self._find_unlisted(stored)
        for tp, work in list(self.work.items()):
            known = stored.positions.get(tp)
            if known is None:
                continue
            now = self.row(tp, known.position)
            reason = describe_generation_gap(
                known,
                now,
                source=self._spec.source.alias,
                target=self._spec.target.alias,
            )
            if reason is not None:
                facts = gap_of_generation(known, now)
                self.stop(tp, known.position, "gap", "generation", reason, facts)
            elif (facts := stored_gap(known)) is not None:
                reason = describe_gap(
                    facts,
                    f"{tp[0]}-{tp[1]}",
                    f"{work.remote_topic}-{work.partition}",
                    source=self._spec.source.alias,
                    target=self._spec.target.alias,
                )
                self.stop(tp, known.position, "gap", facts.kind, reason, facts)
            else:
                self.work[tp] = dataclasses.replace(work, start=known.position)

    def apply_stops(self, stops: dict[TopicPartition, int]) -> None:
        for tp, stop in stops.items():
            if tp in self.work:
                self.work[tp] = dataclasses.replace(self.work[tp], stop=stop)

    def check_ranges(
        self,
        source_ranges: SourceRanges,
        stored: StoredPositions,
        reported: Container[TopicPartition],
        *,
        is_idle: bool,
    ) -> None:
        """Stop partitions outside the source's ranges: the reported ones, or all while the flow is
        idle.

        The end of a truncated log that has grown again is not where it was truncated. Where the
        leader epoch is known, the broker reports the truncation to the lane (KIP-320), so it is
        left to the lane.
        """
        for tp, work in list(self.work.items()):
            first, end = source_ranges.first.get(tp), source_ranges.end.get(tp)
            kind = gap_of_range(work.start, first, end)
            reason = source_ranges.gap(tp, self._spec.source.alias, work.start)
            known = stored.positions.get(tp)
            if kind is None or reason is None:
                continue
            if tp not in reported and (
                not is_idle
                or (kind == "truncated" and known is not None and known.leader_epoch is not None)
            ):
                continue
            resets = 0 if known is None else known.resets
            facts = GapFacts(kind=kind, position=work.start, first=first, end=end, resets=resets)
            self.stop(tp, work.start, "gap", "out_of_range", reason, facts)

    def build(self, slices: dict[TopicPartition, int], positions_topic: str, owner: str) -> Plan:
        return Plan(
            source_cluster_id=self._source.cluster_id,
            target_cluster_id=self._target.cluster_id,
            positions_topic=positions_topic,
            owner=owner,
            partitions=self.work,
            slices={tp: slices[tp] for tp in self.work},
            stopped=self.stopped,
            topics=tuple(self._topic_rows()),
            warnings=self._topics.warnings,
            deleted=self._deleted_partitions(),
        )

    def _add(self, topic: CopiedTopic) -> None:
        for partition in range(topic.partitions):
            tp = (topic.topic, partition)
            ids: list[str] = []
            for name in (topic.remote_topic, *topic.routes):
                remote = self._target.topics.get(name)
                if remote is None or partition >= remote.partitions:
                    lacks = f"{name} is not there yet, or lacks partition {partition}."
                    code, reason = self._blockers.get(name, Blocker("remote_topic", lacks))
                    self.stop(tp, None, "faulted", code, reason)
                    break
                ids.append(remote.topic_id)
            else:
                self.work[tp] = PartitionWork(
                    topic=topic.topic,
                    topic_id=self._source.topics[topic.topic].topic_id,
                    partition=partition,
                    remote_topic=topic.remote_topic,
                    remote_topic_id=ids[0],
                    start=0,
                    routes=tuple(
                        RouteWork(remote_topic=name, remote_topic_id=topic_id)
                        for name, topic_id in zip(topic.routes, ids[1:], strict=True)
                    ),
                )

    def _stop_topic(self, topic: SkippedTopic) -> None:
        """Stop the partitions of a selected topic that cannot have a remote topic."""
        target = self._spec.target.alias
        reason = f"{short_name(topic.topic)} cannot be created on {target}: {topic.reason}."
        for partition in range(self._source.topics[topic.topic].partitions):
            self.stop((topic.topic, partition), None, "faulted", CANNOT_BE_CREATED, reason)

    def _find_unlisted(self, stored: StoredPositions) -> None:
        """Find copied partitions that the source no longer lists as before."""
        for tp, known in stored.positions.items():
            topic, partition = tp
            if tp in self.work or tp in self.stopped:
                continue
            if not self._selection.decide(topic).replicated:
                continue
            state = self._source.topics.get(topic)
            if state is None and (reason := self._source.failed.get(topic)) is not None:
                self.stop(tp, known.position, "faulted", NOT_DESCRIBED, reason)
            elif state is None or partition >= state.partitions:
                self._deleted.setdefault(topic, []).append(partition)

    def stop_hidden(self, described: Mapping[str, int]) -> None:
        """Stop the partitions of topics that were never copied and may not be described any more.

        `described`: partition counts as last described. Call `apply_positions` first.
        """
        for topic, partitions in described.items():
            reason = self._source.failed.get(topic)
            if reason is None or topic in self._source.topics:
                continue
            for tp in ((topic, number) for number in range(partitions)):
                if tp not in self.stopped and tp not in self.work:
                    self.stop(tp, None, "faulted", NOT_DESCRIBED, reason)

    def _deleted_partitions(self) -> dict[TopicPartition, str]:
        """Deleted partitions of topics that still exist."""
        return {
            (topic, partition): f"{topic}-{partition} no longer exists on "
            f"{self._spec.source.alias}: the topic has {state.partitions} partitions now. Its "
            "copies stay on the target."
            for topic, partitions in self._deleted.items()
            if (state := self._source.topics.get(topic)) is not None
            for partition in sorted(partitions)
        }

    def _deleted_topics(self) -> list[TopicStatus]:
        """Topics that were copied and that the source no longer has."""
        return [
            TopicStatus(
                topic=topic,
                remote_topic=self._policy.remote_topic(topic),
                state="skipped",
                reason=f"was deleted on {self._spec.source.alias}; what was copied of it stays on "
                "the target",
                partitions=len(partitions),
                code=DELETED_ON_SOURCE,
            )
            for topic, partitions in self._deleted.items()
            if topic not in self._source.topics
        ]

    def _topic_rows(self) -> list[TopicStatus]:
        rows = [
            TopicStatus(
                topic=topic.topic,
                remote_topic=topic.remote_topic,
                state="pending",
                reason=topic.reason,
                partitions=topic.partitions,
                source_topic_id=self._source.topics[topic.topic].topic_id,
            )
            for topic in self._topics.copied
        ]
        rows += [
            TopicStatus(
                topic=topic.topic,
                remote_topic=topic.remote_topic,
                state="faulted" if topic.fault else "skipped",
                reason=topic.reason,
                partitions=state.partitions
                if (state := self._source.topics.get(topic.topic))
                else 0,
                code=CANNOT_BE_CREATED if topic.fault else FILTERED,
                source_topic_id=state.topic_id if state else "",
            )
            for topic in self._topics.skipped
        ]
        rows += self._deleted_topics()
        copied = Counter(topic for topic, _ in self.stopped)
        # Listed, but DESCRIBE is denied. That must not be taken for a deleted topic.
        rows += [
            TopicStatus(
                topic=name,
                remote_topic=self._policy.remote_topic(name),
                state="faulted",
                reason=reason,
                partitions=copied[name],
                code=NOT_DESCRIBED,
            )
            for name, reason in self._source.failed.items()
            if name not in self._source.topics and self._selection.decide(name).replicated
        ]
        return sorted(rows, key=lambda row: row.topic)
