"""Reads both clusters for a failover plan; where Kafka does not respond, the last samples are used.

The order matters:
- the target's ends first, so that all records below them are in the positions read later;
- then groups, positions and runs; every group-partition is translated by those positions, however
  far a worker has advanced the index meanwhile;
- the source's ends last, so that no loss is missed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition, TopicState
from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.plan_types import FailoverSnapshot, PartitionSnapshot
from mirrors.domain.failover.scope import Scope
from mirrors.domain.failover.scope_boundary import within
from mirrors.domain.gaps.lost_ranges import UNCOPYABLE, GapFacts, GapKind
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import TransformRule, routes_of
from mirrors.kafka.admin.groups import GroupListing, list_reachable_groups
from mirrors.kafka.admin.topics import Admin, Partial
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.models import Flow, FlowAccount, FlowPartition, FlowTopic, Gap, Job, PartitionMap
from mirrors.models.account import STATES
from mirrors.models.flows import DesiredState
from mirrors.models.schemas import schema_problem_of
from mirrors.services.clock import milliseconds, moment
from mirrors.services.failover.left_behind import accepted_losses_of, decisions_of
from mirrors.services.failover.permissions import with_permissions
from mirrors.services.failover.resume_offsets import replicated_end_offsets, with_resume_offsets
from mirrors.services.failover.source_groups import SourceGroups, groups_from_rows, groups_on_source
from mirrors.services.failover.source_partitions import (
    CLIENT_ID,
    SourcePartitions,
    read_source_partitions,
    selected_by,
    with_deleted,
    without_deleted,
)
from mirrors.services.failover.target_topics import read_target_topics, target_topics
from mirrors.services.gaps.lost_ranges import facts_of
from mirrors.services.groups.survey import with_routes
from mirrors.services.offsets.mm2_bounds import find_group_bounds
from mirrors.services.offsets.reverse_translation import origin_partitions
from mirrors.services.offsets.run_index import refresh_index

log = logging.getLogger(__name__)

DEADLINE_S = 20.0
# A source that may be dead gets less time: its last figures are the fallback.
SOURCE_DEADLINE_S = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanInputs:
    """The snapshot for the plan, and the ranges that a simulation reads on the target.

    `committed`: whether the flow copies only committed records. `silence`: why the source as a
    whole did not respond. `undescribed`: why single partitions did not. `rules`: those that filter
    or change records.
    """

    picture: FailoverSnapshot
    committed: bool
    read_to: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    topics: Mapping[str, TopicState]
    silence: str = ""
    undescribed: Mapping[TopicPartition, str] = dataclasses.field(default_factory=dict)
    rules: Sequence[TransformRule] = ()


def read_plan_inputs(
    *,
    flow: Flow,
    spec: FlowSpec,
    groups: Iterable[str],
    now: int,
    tick: Callable[[], None],
    source_s: float = SOURCE_DEADLINE_S,
    scope: Scope | None = None,
) -> PlanInputs:
    """Raises when the target does not respond: without it there is no plan.

    `tick` is called between the requests, each with its deadline; `source_s` is the deadline of
    requests to the source.
    """
    reader = _InputReader(flow, spec, tuple(groups), now, tick, source_s)
    responses = reader.read()
    seen, theirs = responses.groups, responses.source
    positions = {
        (row.topic, row.partition): row.position for row in theirs.rows if row.position is not None
    }
    picture = reader.picture(responses, positions)
    if scope is not None:
        picture = within(picture, scope)
    return PlanInputs(
        picture=with_permissions(picture, flow=flow, spec=spec, away=seen.away, tick=tick),
        committed=_is_committed(spec),
        read_to=_copied_by_then(flow, picture, positions, responses.read_to),
        starts=responses.starts,
        topics=responses.there.topics,
        silence=seen.trouble or theirs.silence,
        undescribed=theirs.undescribed,
        rules=spec.settings.transforms,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Responses:
    """Responses of both clusters; of the target its groups, topics and logs."""

    listed: Mapping[str, GroupListing]
    there: ClusterSnapshot
    read_to: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    ends: Partial[TopicPartition, int]
    groups: SourceGroups
    source: SourcePartitions


class _InputReader:
    """Sends the requests in the order that keeps their responses consistent."""

    def __init__(
        self,
        flow: Flow,
        spec: FlowSpec,
        groups: tuple[str, ...],
        now: int,
        tick: Callable[[], None],
        source_s: float,
    ) -> None:
        self._flow, self._spec, self._groups = flow, spec, groups
        self._now, self._tick, self._source_s = now, tick, source_s
        self._selected = selected_by(spec)
        self._policy = self._selected.policy

    def read(self) -> _Responses:
        listed = _states(self._spec)
        refresh_index(flow=self._flow)
        self._tick()
        rows = _copied(self._flow, self._policy)
        self._home, self._topic_rows = origin_partitions(self._flow), read_target_topics(self._flow)
        with Admin(self._spec.target, client_id=CLIENT_ID) as target:
            remote = {(row.remote_topic, row.partition) for row in rows} | {*self._home.values()}
            rules = self._spec.settings.transforms
            remote |= {(to, row.partition) for row in rows for to in routes_of(row.topic, rules)}
            named = {topic for topic, _ in remote} | self._topic_rows.topics
            there = _topics(target, named, self._now)
            partitions = _existing(remote, there.topics)
            read_to = target.list_offsets(partitions, "stable", deadline_s=DEADLINE_S).done
            starts = target.list_offsets(partitions, "earliest", deadline_s=DEADLINE_S).done
            self._tick()
            groups = self._ask_groups(rows)
            source = self._ask_source(target, rows, there, groups)
            ends = target.list_offsets(partitions, "latest", deadline_s=DEADLINE_S)
        return _Responses(
            listed=listed,
            there=there,
            read_to=read_to,
            starts=starts,
            ends=ends,
            groups=groups,
            source=source,
        )

    def _ask_groups(self, rows: Iterable[PartitionSnapshot]) -> SourceGroups:
        names = {row.topic: row.remote_topic for row in rows}
        names |= {remote[0]: source[0] for remote, source in self._home.items()}
        seen = _groups(self._flow, self._spec, self._groups, names, self._source_s)
        seen = _with_routes(seen, self._spec.settings.transforms, self._home)
        self._tick()
        refresh_index(flow=self._flow)
        if not seen.trouble:
            group_partitions = [
                row for group in seen.groups for row in group.group_partitions if not row.route
            ]
            find_group_bounds(
                flow=self._flow, group_partitions=group_partitions, deadline_s=self._source_s
            )
        return seen

    def _ask_source(
        self,
        target: Admin,
        rows: list[PartitionSnapshot],
        there: ClusterSnapshot,
        seen: SourceGroups,
    ) -> SourcePartitions:
        positions = _positions(target, self._policy)
        self._tick()
        rows = [_at_target(row, positions, there) for row in _with_positions(self._flow, rows)]
        found = SourcePartitions(rows=tuple(rows), silence=seen.trouble)
        if not seen.away:
            self._tick()
            found = read_source_partitions(
                self._spec.source,
                rows,
                self._selected,
                positions=positions,
                committed=_is_committed(self._spec),
                deadline_s=self._source_s,
                tick=self._tick,
            )
        self._tick()
        return with_deleted(
            found, flow=self._flow, spec=self._spec, target=target, deadline_s=DEADLINE_S
        )

    def picture(
        self, seen: _Responses, positions: Mapping[TopicPartition, int]
    ) -> FailoverSnapshot:
        flow, spec, theirs = self._flow, self._spec, seen.source
        here = without_deleted(seen.groups.groups, theirs.deleted, asked=bool(self._groups))
        logs = (seen.starts, seen.ends)
        # A named group that may not be described gets its own row.
        is_named = any(row.partition < 0 for row in theirs.rows)
        return FailoverSnapshot(
            flow=flow.name,
            policy=self._policy,
            source_bootstrap=spec.source.bootstrap_servers,
            target_bootstrap=spec.target.bootstrap_servers,
            taken_at=self._now,
            source_trouble=seen.groups.trouble or theirs.trouble,
            writing=_writing(flow),
            not_running="" if flow.desired_state == DesiredState.RUNNING else flow.desired_state,
            partitions=tuple(_with_ends(theirs.rows, seen.ends.done)),
            groups=tuple(
                with_resume_offsets(
                    flow, here, theirs.rows, logs, seen.listed, self._home, positions
                )
            ),
            deleted_topics=tuple(sorted({topic for topic, _ in theirs.deleted})),
            deleted_seen_at=theirs.deleted_at,
            left_behind=decisions_of(flow),
            accepted_losses=accepted_losses_of(flow),
            not_visible="" if is_named else _not_visible(flow),
            target_topics=target_topics(self._topic_rows, seen.there.topics),
            schemas=schema_problem_of(flow, moment(self._now)),
        )


def _states(spec: FlowSpec) -> dict[str, GroupListing]:
    """The target's groups; also the fastest check whether it responds."""
    try:
        return list_reachable_groups(spec.target).groups
    except UnderstudyError as error:
        alias = spec.target.alias
        words = f"The target {alias} cannot be read, so there is no plan: {error.message}"
        raise KafkaUnavailable(words, code=error.code) from None


def _copied(flow: Flow, policy: ReplicationPolicy) -> list[PartitionSnapshot]:
    """Every partition with a row or a position of the flow, without heartbeats topics."""
    gaps = {
        (gap.topic, gap.partition): gap
        # Records behind one that cannot be replicated count as not replicated.
        for gap in Gap.objects.filter(flow=flow, closed_at=None).exclude(kind__in=UNCOPYABLE)
    }
    kept: dict[TopicPartition, FlowPartition | None] = dict.fromkeys(_mapped(flow))
    rows = FlowPartition.objects.filter(flow=flow).order_by()
    kept |= {(row.topic, row.partition): row for row in rows}
    found = [
        _row(tp, row, gaps.get(tp), policy)
        for tp, row in sorted(kept.items())
        if not policy.is_own_heartbeats_topic(tp[0])
    ]
    named = {topic for topic, _ in kept}
    return [*found, *_without_partitions(flow, named, policy)]


def _mapped(flow: Flow) -> dict[TopicPartition, int]:
    """The position of each partition that has one."""
    known = PartitionMap.objects.filter(flow=flow, position__isnull=False).order_by()
    rows = known.values_list("topic", "partition", "position")
    return {(topic, partition): position for topic, partition, position in rows}


def _row(
    tp: TopicPartition, row: FlowPartition | None, gap: Gap | None, policy: ReplicationPolicy
) -> PartitionSnapshot:
    seen = PartitionSnapshot(
        topic=tp[0],
        partition=tp[1],
        remote_topic=policy.remote_topic(tp[0]),
        position=None,
        gap="" if gap is None else gap.reason or f"it is {gap.kind}.",
        facts=None if gap is None or not gap.facts else facts_of(gap),
    )
    if row is None:
        return seen
    stable = row.source_stable_end
    return dataclasses.replace(
        seen,
        remote_topic=row.remote_topic or seen.remote_topic,
        position=row.position,
        source_end=row.source_end if stable is None else stable,
        # What was never read has no age.
        source_end_at=None if row.source_end is None else milliseconds(row.as_of),
        first=row.source_first,
        counted=row.counted_range,
        is_stopped=row.state in STATES,
        code=row.code,
        reason=row.reason,
    )


def _without_partitions(
    flow: Flow, named: Collection[str], policy: ReplicationPolicy
) -> Iterator[PartitionSnapshot]:
    """Selected topics without a row of any partition."""
    rows = FlowTopic.objects.filter(flow=flow, code__in=("cannot_be_created", "not_described"))
    for row in rows.exclude(topic__in=list(named)):
        for number in range(row.partitions) if row.partitions else (-1,):
            yield PartitionSnapshot(
                topic=row.topic,
                partition=number,
                remote_topic=row.remote_topic or policy.remote_topic(row.topic),
                position=None,
                is_stopped=True,
                code=row.code,
                reason=row.reason,
            )


def _positions(target: Admin, policy: ReplicationPolicy) -> Mapping[TopicPartition, Position]:
    """The committed positions with their ids; none while the topic is unreadable."""
    try:
        return read_positions(target, policy.positions_topic(), deadline_s=DEADLINE_S).positions
    except UnderstudyError as error:
        log.warning("no positions for a failover plan: %s", error.message)
        return {}


def _at_target(
    row: PartitionSnapshot, positions: Mapping[TopicPartition, Position], there: ClusterSnapshot
) -> PartitionSnapshot:
    """Marks rows whose remote topic is not the one that the flow wrote."""
    position = positions.get((row.topic, row.partition))
    if position is None or row.facts is not None or row.remote_topic in there.failed:
        return row
    ids = {row.remote_topic: position.target_topic_id}
    # A route that has no record of the partition yet may be created again.
    ids |= {route.topic: route.topic_id for route in position.routes if route.map_end is not None}
    for name, was in ids.items():
        if name in there.failed:
            continue
        topic = there.topics.get(name)
        kind: GapKind = "remote_missing" if topic is None else "remote_recreated"
        if topic is None or (was and topic.topic_id and was != topic.topic_id):
            now = "" if topic is None else topic.topic_id
            facts = GapFacts(
                kind=kind, position=position.position, first=row.first, end=None, was=was, now=now
            )
            return dataclasses.replace(row, facts=facts)
    return row


def _not_visible(flow: Flow) -> str:
    """Why the principal does not see the topics of the filters, as the flow last found."""
    row = FlowAccount.objects.filter(flow=flow).only("not_visible").first()
    return row.not_visible if row is not None else ""


def _topics(target: Admin, names: set[str], now: int) -> ClusterSnapshot:
    if not names:
        return ClusterSnapshot(taken_at=now, cluster_id="", brokers=0, topics={})
    return target.snapshot(names, now=now, deadline_s=DEADLINE_S)


def _existing(
    partitions: Iterable[TopicPartition], topics: Mapping[str, TopicState]
) -> list[TopicPartition]:
    return [
        (topic, number)
        for topic, number in sorted(partitions)
        if topic in topics and number < topics[topic].partitions
    ]


def _groups(
    flow: Flow,
    spec: FlowSpec,
    names: Iterable[str],
    remote: Mapping[str, str],
    deadline_s: float,
) -> SourceGroups:
    try:
        return groups_on_source(
            flow=flow, spec=spec, names=names, remote=remote, deadline_s=deadline_s
        )
    except UnderstudyError as error:
        found = groups_from_rows(flow=flow, names=names, remote=remote)
        trouble = f"{spec.source.alias} cannot be read: {error.message}"
        away = isinstance(error, KafkaUnavailable)
        return dataclasses.replace(found, trouble=trouble, away=away)


def _with_routes(
    seen: SourceGroups,
    rules: Sequence[TransformRule],
    home: Mapping[TopicPartition, TopicPartition],
) -> SourceGroups:
    """Each group-partition with a row for each of its target topics."""
    origins = {topic for topic, _ in home}
    groups = [
        dataclasses.replace(
            group,
            group_partitions=tuple(
                row
                for row in with_routes(group.group_partitions, rules)
                if not row.route or row.topic not in origins
            ),
        )
        for group in seen.groups
    ]
    return dataclasses.replace(seen, groups=tuple(groups))


def _with_positions(flow: Flow, rows: list[PartitionSnapshot]) -> list[PartitionSnapshot]:
    positions = _mapped(flow)
    found = []
    for row in rows:
        position = positions.get((row.topic, row.partition), row.position)
        same = position == row.position
        found.append(row if same else dataclasses.replace(row, position=position))
    return found


def _copied_by_then(
    flow: Flow,
    picture: FailoverSnapshot,
    positions: Mapping[TopicPartition, int],
    read_to: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where reading the target stops for each group-partition: the positions of its translation.

    The target's ends were read before; later records may have been replicated since.
    """
    found, names = dict(read_to), {(row.topic, row.partition): row for row in picture.partitions}
    read = {
        (row.topic, row.partition) for group in picture.groups for row in group.group_partitions
    }
    wanted = {tp: positions[tp] for tp in read & names.keys() & positions.keys()}
    routes = {row.route for group in picture.groups for row in group.group_partitions}
    for route in {"", *routes}:
        for tp, end in replicated_end_offsets(flow, wanted, route).items():
            remote = (route or names[tp].remote_topic, tp[1])
            if remote in found:
                found[remote] = max(found[remote], end)
    return found


def _with_ends(
    rows: Iterable[PartitionSnapshot], ends: Mapping[TopicPartition, int]
) -> Iterator[PartitionSnapshot]:
    for row in rows:
        yield dataclasses.replace(row, target_end=ends.get((row.remote_topic, row.partition)))


def _is_committed(spec: FlowSpec) -> bool:
    return spec.settings.isolation_level == "read_committed"


def _writing(flow: Flow) -> str:
    if not Job.objects.filter(flow=flow, ended_at=None).exists():
        return ""
    return (
        f"{flow.name} still writes to {flow.target.alias}. A real failover stops it first, so that "
        "no reader misses later records."
    )
