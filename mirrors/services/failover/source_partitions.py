"""Selected partitions as the source reports them: their ends, and which were deleted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.partitions import NOT_COPIED
from mirrors.domain.failover.plan_types import GroupSnapshot, PartitionSnapshot
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.gaps.lost_ranges import GapFacts, GapKind, describe_range_gap
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.patterns.renames import LONGEST_NAME
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.topics import Admin, OffsetQuery
from mirrors.models import Flow
from mirrors.services.failover.source_groups import NOTHING
from mirrors.services.gaps.deleted_partitions import find_deleted

CLIENT_ID = "understudy-failover"
NOT_DESCRIBED = "not_described"
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourcePartitions:
    """Each partition with the source's current figures, or with its last figure and age.

    `silence`: why the source did not respond. `undescribed`: why single partitions did not.
    `deleted`: partitions that the source no longer has; `deleted_at` (epoch ms): an earlier read.
    """

    rows: tuple[PartitionSnapshot, ...]
    silence: str = ""
    undescribed: Mapping[TopicPartition, str] = dataclasses.field(default_factory=dict)
    deleted: frozenset[TopicPartition] = frozenset()
    deleted_at: int | None = None

    @property
    def trouble(self) -> str:
        """One reason for all figures that are not current."""
        return self.silence or next(iter(self.undescribed.values()), "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectedTopics:
    """Source topics that the flow's filters select, with their remote names."""

    selection: TopicSelection
    policy: ReplicationPolicy
    # Topics that the filters name: a listing may hide them from the principal.
    listed: tuple[str, ...] = ()

    @property
    def named(self) -> set[str]:
        return {name for name in self.listed if _NAME.fullmatch(name) and self.takes(name)}

    def takes(self, topic: str) -> bool:
        # Heartbeats topics belong to this product: they are no loss.
        is_ours = self.policy.is_own_heartbeats_topic(topic)
        return not is_ours and self.selection.decide(topic).replicated


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedTopics(SelectedTopics):
    """Exactly the topics of one application; the flow has excluded them since."""

    def takes(self, topic: str) -> bool:
        return topic in self.listed


def named_topics(spec: FlowSpec, topics: Iterable[str]) -> SelectedTopics:
    chosen = selected_by(spec)
    return NamedTopics(
        selection=chosen.selection, policy=chosen.policy, listed=tuple(sorted(set(topics)))
    )


def selected_by(spec: FlowSpec) -> SelectedTopics:
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    return SelectedTopics(
        selection=TopicSelection(spec.settings, policy),
        policy=policy,
        listed=NamePatterns(spec.settings.topics).elements,
    )


def read_source_partitions(
    spec: ClusterSpec,
    rows: Iterable[PartitionSnapshot],
    selected: SelectedTopics,
    *,
    positions: Mapping[TopicPartition, Position],
    committed: bool,
    deadline_s: float,
    tick: Callable[[], None],
) -> SourcePartitions:
    """Every selected topic-partition, with or without a row. Each request has the deadline
    `deadline_s`; `tick` is called between requests.

    `positions` are the committed ones: their ids identify a recreated topic.
    """
    known = {(row.topic, row.partition): row for row in rows}
    deleted: frozenset[TopicPartition] = frozenset()
    alive, stops = _told_apart(tick)
    try:
        with Admin(spec, client_id=CLIENT_ID) as source:
            listed = list_selected(source, known.keys(), selected, deadline_s, alive)
            deleted = _deleted(known.keys(), listed)
            known = {tp: row for tp, row in known.items() if tp not in deleted}
            known |= not_copied(known.keys(), listed, selected)
            known = {tp: _described(row, listed) for tp, row in known.items()}
            ends = _ends(source, known, committed=committed, deadline_s=deadline_s, tick=alive)
    except UnderstudyError as error:
        if error in stops:
            raise
        left = tuple(row for tp, row in known.items() if tp not in deleted)
        return SourcePartitions(rows=left, silence=error.message, deleted=deleted)
    found = {tp: _with_ends(row, tp, ends) for tp, row in known.items()}
    return SourcePartitions(
        rows=tuple(
            _with_deleted_records(_identified(row, positions, listed), positions, spec.alias)
            for row in found.values()
        ),
        undescribed={tp: error.message for tp, error in ends.failed.items()},
        deleted=deleted,
    )


def _told_apart(tick: Callable[[], None]) -> tuple[Callable[[], None], list[Exception]]:
    """The same `tick`, and what it raised: a request to stop is not a silent source."""
    stops: list[Exception] = []

    def alive() -> None:
        try:
            tick()
        except Exception as stop:
            stops.append(stop)
            raise

    return alive, stops


class _Ends(NamedTuple):
    """Log start, readable end and last offset; a partition has all of them or has failed."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    lasts: Mapping[TopicPartition, int]
    failed: Mapping[TopicPartition, UnderstudyError]


def _ends(
    source: Admin,
    known: Mapping[TopicPartition, PartitionSnapshot],
    *,
    committed: bool,
    deadline_s: float,
    tick: Callable[[], None],
) -> _Ends:
    level: OffsetQuery = "stable" if committed else "latest"
    partitions = [tp for tp, row in known.items() if tp[1] >= 0 and row.code != NOT_DESCRIBED]
    tick()
    ends = source.list_offsets(partitions, level, deadline_s=deadline_s)
    tick()
    starts = source.list_offsets(ends.done, "earliest", deadline_s=deadline_s)
    tick()
    lasts = ends.done
    if committed:
        lasts = source.list_offsets(starts.done, "latest", deadline_s=deadline_s).done
    return _Ends(starts.done, ends.done, lasts, {**ends.failed, **starts.failed})


def _with_ends(row: PartitionSnapshot, tp: TopicPartition, ends: _Ends) -> PartitionSnapshot:
    if tp not in ends.starts:
        return row
    return dataclasses.replace(
        row,
        source_end=ends.ends[tp],
        source_last=ends.lasts.get(tp),
        source_end_at=None,
        source_start=ends.starts[tp],
    )


def list_selected(
    source: Admin,
    known: Collection[TopicPartition],
    selected: SelectedTopics,
    deadline_s: float,
    tick: Callable[[], None],
) -> ClusterSnapshot:
    """The topics that are or were replicated, and all others that the filters select."""
    names = {topic for topic, _ in known if topic}
    names |= {name for name in source.topic_names(deadline_s=deadline_s) if selected.takes(name)}
    names |= selected.named
    tick()
    return source.snapshot(names, now=0, deadline_s=deadline_s, with_configs=False)


def not_copied(
    known: Collection[TopicPartition], listed: ClusterSnapshot, selected: SelectedTopics
) -> dict[TopicPartition, PartitionSnapshot]:
    """Selected partitions without a row; their records would be lost too. Partition -1 stands for
    all of a topic that could not be described."""
    topics = {topic for topic, _ in known}
    found: dict[TopicPartition, PartitionSnapshot] = {}
    for name, topic in listed.topics.items():
        if selected.takes(name):
            for number in range(topic.partitions):
                if (name, number) not in known:
                    remote = selected.policy.remote_topic(name)
                    found[name, number] = _unknown(name, number, remote, NOT_COPIED, "")
    for name, why in listed.failed.items():
        if selected.takes(name) and name not in topics:
            remote = selected.policy.remote_topic(name)
            found[name, -1] = _unknown(name, -1, remote, NOT_DESCRIBED, why)
    return found


def _described(row: PartitionSnapshot, listed: ClusterSnapshot) -> PartitionSnapshot:
    """A replicated partition that can no longer be described: its figures are the last known."""
    if row.topic not in listed.failed:
        return row
    why = listed.failed[row.topic]
    return dataclasses.replace(row, is_stopped=True, code=NOT_DESCRIBED, reason=why)


def _unknown(
    topic: str, partition: int, remote_topic: str, code: str, reason: str
) -> PartitionSnapshot:
    return PartitionSnapshot(
        topic=topic,
        partition=partition,
        remote_topic=remote_topic,
        position=None,
        is_stopped=code != NOT_COPIED,
        code=code,
        reason=reason,
    )


def _identified(
    row: PartitionSnapshot, positions: Mapping[TopicPartition, Position], listed: ClusterSnapshot
) -> PartitionSnapshot:
    """Marks partitions whose source topic is not the one that was replicated."""
    position, topic = positions.get((row.topic, row.partition)), listed.topics.get(row.topic)
    if position is None or topic is None or row.facts is not None or row.source_end is None:
        return row
    pairs: tuple[tuple[GapKind, str, str], ...] = (
        ("source_replaced", position.source_cluster, listed.cluster_id),
        ("recreated", position.source_topic_id, topic.topic_id),
    )
    for kind, was, now in pairs:
        if was and now and was != now:
            facts = GapFacts(
                kind=kind,
                position=position.position,
                first=row.source_start,
                end=row.source_end,
                was=was,
                now=now,
            )
            # What was counted of the other log is not owed.
            return dataclasses.replace(row, facts=facts, counted=None)
    return row


def _with_deleted_records(
    row: PartitionSnapshot, positions: Mapping[TopicPartition, Position], source: str
) -> PartitionSnapshot:
    """Marks partitions whose next record the source has deleted: the flow opens a gap as soon as
    it looks, so a run would stop there."""
    position, first = positions.get((row.topic, row.partition)), row.source_start
    if position is None or row.facts is not None or first is None or row.source_end is None:
        return row
    at = max(position.position, row.position or 0)
    if at >= first:
        return row
    facts = GapFacts(
        kind="deleted", position=at, first=first, end=row.source_end, resets=position.resets
    )
    text = describe_range_gap(row.name, source, at, first, row.source_end) or ""
    return dataclasses.replace(row, facts=facts, gap=text)


def with_deleted(
    seen: SourcePartitions, *, flow: Flow, spec: FlowSpec, target: Admin, deadline_s: float
) -> SourcePartitions:
    """For a silent source: partitions that it had deleted before are no loss of this failure, and
    have no known end."""
    unknown = [(row.topic, row.partition) for row in seen.rows if row.source_end is None]
    if not seen.silence or not unknown:
        return seen
    found = find_deleted(
        flow=flow, spec=spec, target=target, topic_partitions=unknown, deadline_s=deadline_s
    )
    return dataclasses.replace(
        seen,
        rows=tuple(row for row in seen.rows if (row.topic, row.partition) not in found.partitions),
        deleted=seen.deleted | found.partitions,
        deleted_at=found.seen_at,
    )


def _deleted(
    partitions: Collection[TopicPartition], listed: ClusterSnapshot
) -> frozenset[TopicPartition]:
    """A position outlives its topic, so that a recreated topic is recognized.

    A topic that could not be described does not count as deleted.
    """
    there = {name: topic.partitions for name, topic in listed.topics.items()}
    return frozenset(
        (topic, number)
        for topic, number in partitions
        if topic not in listed.failed and number >= there.get(topic, 0)
    )


def without_deleted(
    groups: Iterable[GroupSnapshot], deleted: frozenset[TopicPartition], *, asked: bool
) -> tuple[GroupSnapshot, ...]:
    """Kafka deletes groups' offsets with a topic; stored rows may still have them.

    `asked`: a person named the groups, so one without any offset is reported.
    """
    found = []
    for group in groups:
        group_partitions = tuple(
            row for row in group.group_partitions if (row.topic, row.partition) not in deleted
        )
        if group_partitions or not group.group_partitions:
            found.append(dataclasses.replace(group, group_partitions=group_partitions))
        elif asked:
            found.append(dataclasses.replace(group, group_partitions=(), trouble=NOTHING))
    return tuple(found)
