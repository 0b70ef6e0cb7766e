"""Look at both sides for a failover plan: Kafka where it answers, the last samples where not.

The order matters: the target's ends first, so that all below them is in the positions read later;
then groups, positions and runs; the source's ends last, so that no loss is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.shapes import FailoverPicture, PartitionPicture
from mirrors.domain.policy import ReplicationPolicy, policy_for
from mirrors.domain.snapshot import TopicState
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin import Admin, Place
from mirrors.kafka.groups import list_groups
from mirrors.models import Flow, FlowPartition, Gap, Job, PartitionMap
from mirrors.services.backward import ways_home
from mirrors.services.clock import milliseconds
from mirrors.services.failover.failover_answers import with_answers
from mirrors.services.failover.failover_beside import with_rights
from mirrors.services.failover.failover_groups import GroupsSeen, groups_from_rows, groups_on_source
from mirrors.services.failover.failover_standing import read_standing, standing_of
from mirrors.services.offsets.run_index import refresh_index

CLIENT_ID = "understudy-failover"
DEADLINE_S = 20.0
# A source that may be dead is given less: its last figures are there to fall back on.
SOURCE_DEADLINE_S = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """The picture, and what a simulation needs to read: `read_to` and `starts` of the target.

    `committed`: whether the flow copies committed records only.
    """

    picture: FailoverPicture
    committed: bool
    read_to: Mapping[Place, int]
    starts: Mapping[Place, int]
    topics: Mapping[str, TopicState]


def look(
    *, flow: Flow, spec: FlowSpec, groups: Iterable[str], now: int, tick: Callable[[], None]
) -> Look:
    """Raises when the target does not answer: without it there is nothing to plan.

    `tick` is called between the questions, none of which takes longer than its deadline.
    """
    states = _states(spec)
    refresh_index(flow=flow)
    tick()
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    rows, home, standing = _copied(flow, policy), ways_home(flow), read_standing(flow)
    with Admin(spec.target, client_id=CLIENT_ID) as target:
        remote = {(row.remote_topic, row.partition) for row in rows} | set(home.values())
        topics = _topics(target, {topic for topic, _ in remote} | standing.topics, now)
        places = _existing(remote, topics)
        read_to = target.list_offsets(places, "stable", deadline_s=DEADLINE_S).done
        starts = target.list_offsets(places, "earliest", deadline_s=DEADLINE_S).done
        tick()
        names = {row.topic: row.remote_topic for row in rows}
        names |= {place[0]: source[0] for place, source in home.items()}
        seen = _groups(flow, spec, groups, names)
        tick()
        refresh_index(flow=flow)
        rows, trouble = _with_positions(flow, rows), seen.trouble
        if not seen.away:
            tick()
            rows, trouble = _source_ends(spec, rows)
        tick()
        ends = target.list_offsets(places, "latest", deadline_s=DEADLINE_S).done
    picture = FailoverPicture(
        flow=flow.name,
        policy=policy,
        source_bootstrap=spec.source.bootstrap_servers,
        target_bootstrap=spec.target.bootstrap_servers,
        taken_at=now,
        source_trouble=seen.trouble or trouble,
        writing=_writing(flow),
        partitions=tuple(_with_ends(rows, ends)),
        groups=tuple(with_answers(flow, seen.groups, (starts, ends), states, home)),
        standing=standing_of(standing, topics),
    )
    picture = with_rights(picture, flow=flow, spec=spec, away=seen.away, tick=tick)
    committed = _is_committed(spec)
    return Look(picture=picture, committed=committed, read_to=read_to, starts=starts, topics=topics)


def _states(spec: FlowSpec) -> dict[str, str]:
    """The target's groups with their states; also the quickest way to learn that it is away."""
    try:
        return {name: row.state for name, row in list_groups(spec.target).items()}
    except UnderstudyError as error:
        alias = spec.target.alias
        words = f"The target {alias} cannot be asked, so there is no plan: {error.message}"
        raise KafkaUnavailable(words, code=error.code) from None


def _copied(flow: Flow, policy: ReplicationPolicy) -> list[PartitionPicture]:
    """Every partition that the flow copies, heartbeats left out: those are ours."""
    gaps = {
        (gap.topic, gap.partition): gap.reason or f"it is {gap.kind}."
        for gap in Gap.objects.filter(flow=flow, closed_at=None)
    }
    kept: dict[Place, FlowPartition | None] = {
        (row.topic, row.partition): None
        for row in PartitionMap.objects.filter(flow=flow, position__isnull=False)
    }
    kept |= {(row.topic, row.partition): row for row in FlowPartition.objects.filter(flow=flow)}
    return [
        PartitionPicture(
            topic=place[0],
            partition=place[1],
            remote_topic=(row and row.remote_topic) or policy.remote_topic(place[0]),
            position=None if row is None else row.position,
            source_end=None if row is None else row.source_stable_end,
            source_end_at=None if row is None else milliseconds(row.as_of),
            gap=gaps.get(place, ""),
        )
        for place, row in sorted(kept.items())
        if not policy.is_heartbeats_topic(place[0])
    ]


def _topics(target: Admin, names: set[str], now: int) -> Mapping[str, TopicState]:
    if not names:
        return {}
    return target.snapshot(names, now=now, deadline_s=DEADLINE_S).topics


def _existing(places: Iterable[Place], topics: Mapping[str, TopicState]) -> list[Place]:
    return [
        (topic, number)
        for topic, number in sorted(places)
        if topic in topics and number < topics[topic].partitions
    ]


def _groups(
    flow: Flow, spec: FlowSpec, names: Iterable[str], remote: Mapping[str, str]
) -> GroupsSeen:
    try:
        return groups_on_source(
            flow=flow, spec=spec, names=names, remote=remote, deadline_s=SOURCE_DEADLINE_S
        )
    except UnderstudyError as error:
        found = groups_from_rows(flow=flow, names=names, remote=remote)
        trouble = f"{spec.source.alias} cannot be asked: {error.message}"
        away = isinstance(error, KafkaUnavailable)
        return dataclasses.replace(found, trouble=trouble, away=away)


def _with_positions(flow: Flow, rows: list[PartitionPicture]) -> list[PartitionPicture]:
    known = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    positions = {(row.topic, row.partition): row.position for row in known}
    return [
        dataclasses.replace(row, position=positions.get((row.topic, row.partition), row.position))
        for row in rows
    ]


def _source_ends(
    spec: FlowSpec, rows: list[PartitionPicture]
) -> tuple[list[PartitionPicture], str]:
    """Ends as the source says them now; where it does not, the last figure stays, with its age."""
    places = [(row.topic, row.partition) for row in rows]
    try:
        with Admin(spec.source, client_id=CLIENT_ID) as source:
            ends = source.list_offsets(
                places, "stable" if _is_committed(spec) else "latest", deadline_s=SOURCE_DEADLINE_S
            )
            starts = source.list_offsets(places, "earliest", deadline_s=SOURCE_DEADLINE_S)
    except UnderstudyError as error:
        return rows, error.message
    trouble = next((error.message for error in ends.failed.values()), "")
    return [
        dataclasses.replace(
            row,
            source_end=ends.done[place],
            source_end_at=None,
            source_start=starts.done.get(place),
        )
        if (place := (row.topic, row.partition)) in ends.done
        else row
        for row in rows
    ], trouble


def _with_ends(
    rows: Iterable[PartitionPicture], ends: Mapping[Place, int]
) -> Iterator[PartitionPicture]:
    for row in rows:
        yield dataclasses.replace(row, target_end=ends.get((row.remote_topic, row.partition)))


def _is_committed(spec: FlowSpec) -> bool:
    return spec.settings.isolation_level == "read_committed"


def _writing(flow: Flow) -> str:
    if not Job.objects.filter(flow=flow, ended_at=None).exists():
        return ""
    return (
        f"{flow.name} still writes to {flow.target.alias}. A real failover stops it first, so that "
        "nobody reads what is written behind its back."
    )
