"""A plan in the making: every partition either has its work, or the reason why it is stopped."""

from __future__ import annotations

import dataclasses

from mirrors.domain.filters import TopicSelection
from mirrors.domain.jobs import TopicStatus
from mirrors.domain.policy import policy_for
from mirrors.domain.records import Position
from mirrors.domain.snapshot import ClusterSnapshot
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics import CopiedTopic, TopicPlan
from spark_runner.generations import generation_gap
from spark_runner.positions import Ledger, Place
from spark_runner.starts import Ranges
from spark_runner.work import ErrorState, PartitionError, PartitionWork


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to copy and in which slice; what is not copied and why."""

    source_cluster_id: str
    target_cluster_id: str
    positions_topic: str
    partitions: dict[Place, PartitionWork]
    slices: dict[Place, int]
    stopped: dict[Place, PartitionError]
    topics: tuple[TopicStatus, ...]
    warnings: tuple[str, ...]
    # Where a bounded run ends, in words; empty when it does not, or not yet.
    until: str = ""

    @property
    def slice_count(self) -> int:
        return max(self.slices.values(), default=-1) + 1


class Draft:
    def __init__(
        self,
        spec: FlowSpec,
        source: ClusterSnapshot,
        target: ClusterSnapshot,
        topics: TopicPlan,
        failed: dict[str, str],
    ) -> None:
        self._spec = spec
        self._source = source
        self._target = target
        self._topics = topics
        self._failed = failed
        self.work: dict[Place, PartitionWork] = {}
        self.stopped: dict[Place, PartitionError] = {}
        for topic in topics.copied:
            self._add(topic)

    def stop(
        self, place: Place, offset: int | None, state: ErrorState, code: str, reason: str
    ) -> None:
        self.work.pop(place, None)
        self.stopped[place] = PartitionError(
            topic=place[0],
            partition=place[1],
            offset=offset,
            state=state,
            code=code,
            reason=reason,
        )

    def row(self, place: Place, offset: int) -> Position:
        work = self.work[place]
        return Position(
            topic=work.topic,
            partition=work.partition,
            position=offset,
            source_cluster=self._source.cluster_id,
            source_topic_id=work.topic_id,
            target_cluster=self._target.cluster_id,
            target_topic_id=work.remote_topic_id,
        )

    def respect(self, configs: dict[str, dict[str, str]]) -> None:
        """What the target's settings demand of a lane."""
        for place, work in self.work.items():
            self.work[place] = dataclasses.replace(
                work, remote_configs=configs.get(work.remote_topic, {})
            )

    def begin_at(self, ledger: Ledger) -> None:
        """Every partition gets its position; one of another generation stops its partition."""
        for place, work in list(self.work.items()):
            known = ledger.positions.get(place)
            if known is None:
                continue
            words = generation_gap(
                known,
                self.row(place, known.position),
                source=self._spec.source.alias,
                target=self._spec.target.alias,
            )
            if words is not None:
                self.stop(place, known.position, "gap", "generation", words)
            else:
                self.work[place] = dataclasses.replace(work, start=known.position)

    def end_at(self, stops: dict[Place, int]) -> None:
        for place, stop in stops.items():
            if place in self.work:
                self.work[place] = dataclasses.replace(self.work[place], stop=stop)

    def check_ranges(self, held: Ranges) -> None:
        for place, work in list(self.work.items()):
            words = held.gap(place, self._spec.source.alias, work.start)
            if words is not None:
                self.stop(place, work.start, "gap", "out_of_range", words)

    def finish(self, slices: dict[Place, int], positions_topic: str) -> Plan:
        return Plan(
            source_cluster_id=self._source.cluster_id,
            target_cluster_id=self._target.cluster_id,
            positions_topic=positions_topic,
            partitions=self.work,
            slices={place: slices[place] for place in self.work},
            stopped=self.stopped,
            topics=tuple(self._topic_rows()),
            warnings=self._topics.warnings,
        )

    def _add(self, topic: CopiedTopic) -> None:
        remote = self._target.topics.get(topic.remote_topic)
        for partition in range(topic.partitions):
            place = (topic.topic, partition)
            if remote is None or partition >= remote.partitions:
                lacks = f"{topic.remote_topic} is not there yet, or lacks partition {partition}."
                reason = self._failed.get(topic.remote_topic, lacks)
                self.stop(place, None, "faulted", "remote_topic", reason)
                continue
            self.work[place] = PartitionWork(
                topic=topic.topic,
                topic_id=self._source.topics[topic.topic].topic_id,
                partition=partition,
                remote_topic=topic.remote_topic,
                remote_topic_id=remote.topic_id,
                start=0,
            )

    def _topic_rows(self) -> list[TopicStatus]:
        rows = [
            TopicStatus(
                topic=topic.topic,
                remote_topic=topic.remote_topic,
                state="pending",
                reason=topic.reason,
                partitions=topic.partitions,
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
            )
            for topic in self._topics.skipped
        ]
        policy = policy_for(self._spec.settings, self._spec.source.alias, self._spec.target.alias)
        selection = TopicSelection(self._spec.settings, policy)
        # Seen, but not to be looked into: that must not be taken for "not there".
        rows += [
            TopicStatus(
                topic=name,
                remote_topic=policy.remote_topic(name),
                state="faulted",
                reason=reason,
                partitions=0,
            )
            for name, reason in self._source.failed.items()
            if name not in self._source.topics and selection.decide(name).replicated
        ]
        return sorted(rows, key=lambda row: row.topic)
