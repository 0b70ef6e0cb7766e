"""Look at both sides for a failover plan: Kafka where it answers, the last samples where not.

The order matters: the target's ends first, so that all below them is in the positions read later;
then groups, positions and runs; the source's ends last, so that no loss is left out. Each place is
translated by those same positions, however far a worker has brought the index meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.shapes import FailoverPicture, PartitionPicture
from mirrors.domain.gaps import IN_THE_WAY
from mirrors.domain.policy import ReplicationPolicy, policy_for
from mirrors.domain.snapshot import TopicState
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin import Admin, Place
from mirrors.kafka.groups import list_groups
from mirrors.models import Flow, FlowPartition, Gap, Job, PartitionMap
from mirrors.services.backward import ways_home
from mirrors.services.clock import milliseconds
from mirrors.services.failover.failover_answers import copied_to, with_answers
from mirrors.services.failover.failover_beside import with_rights
from mirrors.services.failover.failover_groups import GroupsSeen, groups_from_rows, groups_on_source
from mirrors.services.failover.failover_source import (
    CLIENT_ID,
    SourceSeen,
    ask_source,
    with_recalled,
    without,
)
from mirrors.services.failover.failover_standing import read_standing, standing_of
from mirrors.services.offsets.bounds import learn_group_bounds
from mirrors.services.offsets.run_index import refresh_index

DEADLINE_S = 20.0
# A source that may be dead is given less: its last figures are there to fall back on.
SOURCE_DEADLINE_S = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """The picture, and what a simulation needs to read: `read_to` and `starts` of the target.

    `committed`: whether the flow copies committed records only. `silence` says why the source could
    not be asked at all, `untold` why it could not of single partitions.
    """

    picture: FailoverPicture
    committed: bool
    read_to: Mapping[Place, int]
    starts: Mapping[Place, int]
    topics: Mapping[str, TopicState]
    silence: str = ""
    untold: Mapping[Place, str] = dataclasses.field(default_factory=dict)


def look(
    *,
    flow: Flow,
    spec: FlowSpec,
    groups: Iterable[str],
    now: int,
    tick: Callable[[], None],
    source_s: float = SOURCE_DEADLINE_S,
) -> Look:
    """Raises when the target does not answer: without it there is nothing to plan.

    `tick` is called between the questions, none of which takes longer than its deadline; `source_s`
    is the deadline of those to the source.
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
        groups = tuple(groups)
        seen = _groups(flow, spec, groups, names, source_s)
        tick()
        refresh_index(flow=flow)
        if not seen.trouble:
            places_of = [place for group in seen.groups for place in group.places]
            learn_group_bounds(flow=flow, places=places_of, deadline_s=source_s)
        theirs = _theirs(spec, _with_positions(flow, rows), seen, source_s, tick)
        tick()
        theirs = with_recalled(theirs, flow=flow, spec=spec, target=target, deadline_s=DEADLINE_S)
        ends = target.list_offsets(places, "latest", deadline_s=DEADLINE_S)
    positions = {
        (row.topic, row.partition): row.position for row in theirs.rows if row.position is not None
    }
    here = without(seen.groups, theirs.gone, asked=bool(groups))
    there = (starts, ends)
    picture = FailoverPicture(
        flow=flow.name,
        policy=policy,
        source_bootstrap=spec.source.bootstrap_servers,
        target_bootstrap=spec.target.bootstrap_servers,
        taken_at=now,
        source_trouble=seen.trouble or theirs.trouble,
        writing=_writing(flow),
        partitions=tuple(_with_ends(theirs.rows, ends.done)),
        groups=tuple(with_answers(flow, here, theirs.rows, there, states, home, positions)),
        gone=tuple(sorted({topic for topic, _ in theirs.gone})),
        gone_at=theirs.gone_at,
        standing=standing_of(standing, topics),
    )
    return Look(
        picture=with_rights(picture, flow=flow, spec=spec, away=seen.away, tick=tick),
        committed=_is_committed(spec),
        read_to=_copied_by_then(flow, picture, positions, read_to),
        starts=starts,
        topics=topics,
        silence=seen.trouble or theirs.silence,
        untold=theirs.untold,
    )


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
        # What waits behind a record that does not cross is counted as not copied.
        for gap in Gap.objects.filter(flow=flow, closed_at=None).exclude(kind__in=IN_THE_WAY)
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
        if not policy.is_own_heartbeats_topic(place[0])
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
    flow: Flow,
    spec: FlowSpec,
    names: Iterable[str],
    remote: Mapping[str, str],
    deadline_s: float,
) -> GroupsSeen:
    try:
        return groups_on_source(
            flow=flow, spec=spec, names=names, remote=remote, deadline_s=deadline_s
        )
    except UnderstudyError as error:
        found = groups_from_rows(flow=flow, names=names, remote=remote)
        trouble = f"{spec.source.alias} cannot be asked: {error.message}"
        away = isinstance(error, KafkaUnavailable)
        return dataclasses.replace(found, trouble=trouble, away=away)


def _theirs(
    spec: FlowSpec,
    rows: Iterable[PartitionPicture],
    seen: GroupsSeen,
    deadline_s: float,
    tick: Callable[[], None],
) -> SourceSeen:
    if seen.away:
        return SourceSeen(rows=tuple(rows), silence=seen.trouble)
    tick()
    return ask_source(spec.source, rows, committed=_is_committed(spec), deadline_s=deadline_s)


def _with_positions(flow: Flow, rows: list[PartitionPicture]) -> list[PartitionPicture]:
    known = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    positions = {(row.topic, row.partition): row.position for row in known}
    return [
        dataclasses.replace(row, position=positions.get((row.topic, row.partition), row.position))
        for row in rows
    ]


def _copied_by_then(
    flow: Flow,
    picture: FailoverPicture,
    positions: Mapping[Place, int],
    read_to: Mapping[Place, int],
) -> dict[Place, int]:
    """How far groups are read on the target: as far as the positions that their places come from.

    The target's ends were asked for before; what a group reads next may have crossed since.
    """
    found, names = dict(read_to), {(row.topic, row.partition): row for row in picture.partitions}
    read = {(row.topic, row.partition) for group in picture.groups for row in group.places}
    wanted = {place: positions[place] for place in read & names.keys() & positions.keys()}
    for place, end in copied_to(flow, wanted).items():
        remote = (names[place].remote_topic, place[1])
        if remote in found:
            found[remote] = max(found[remote], end)
    return found


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
