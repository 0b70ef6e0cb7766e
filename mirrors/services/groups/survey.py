"""Survey of a flow's groups: offsets on both clusters and resume offsets, without changing them.

The order of the reads keeps results from being ahead: source offsets, positions and runs, both
logs' ends. The states on the target are read last, as close to a write as possible.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.filters.groups import GroupVerdict
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.groups.checkpoints import name_taken
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.groups import GroupOffset, list_reachable_groups, read_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow
from mirrors.services.clock import Budget, moment
from mirrors.services.groups.store import has_listing, known_groups, known_places, store_listing
from mirrors.services.offsets.mm2_bounds import find_bounds
from mirrors.services.offsets.reverse_translation import reverse_flow_of
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets

_MIXED = (
    "with skip.replicated, one topic holds records of both directions in a different order on "
    "each cluster: an offset there could skip records that the group has not read"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """All group-partitions of the selected groups; `states` of those that the target has."""

    groups: tuple[str, ...]
    places: tuple[GroupPartition, ...]
    states: dict[str, str]


def discover_groups(context: SyncTaskContext) -> Outcome:
    """Sync task `groups`: the groups on the source, and which are excluded and why."""
    flow = flow_of(context)
    verdicts, missing = find_groups(
        flow=flow,
        spec=context.spec,
        now=moment(context.now),
        budget=Budget(context.deadline_s),
    )
    chosen = sum(verdict.chosen for verdict in verdicts.values())
    return Outcome(
        counts={"groups": chosen, "left_out": len(verdicts) - chosen},
        reasons=(
            *([missing] if missing else []),
            *summarize((v.reason, name) for name, v in sorted(verdicts.items()) if not v.chosen),
        ),
    )


def survey_of(context: SyncTaskContext) -> Survey:
    """The survey that the sync tasks `checkpoints` and `group offsets` share."""
    return survey_groups(
        flow=flow_of(context),
        spec=context.spec,
        now=moment(context.now),
        budget=Budget(context.deadline_s),
    )


def survey_groups(*, flow: Flow, spec: FlowSpec, now: datetime, budget: Budget) -> Survey:
    """Raises when a whole cluster does not respond; the failure of one group affects only it."""
    if not has_listing(flow=flow):
        find_groups(flow=flow, spec=spec, now=now, budget=budget)
    groups = known_groups(flow=flow, spec=spec)
    known = known_places(flow=flow)
    seen = _on_source(spec.source, groups, known, budget)
    places = _selected(spec, seen)
    refresh_index(flow=flow, deadline_s=budget.left_s)
    if spec.settings.skip_replicated and not _is_settled(flow, budget):
        places = [_mixed(place) for place in places]
    else:
        places = _translated(flow, places)
        if find_bounds(flow=flow, answers=_answers(places), deadline_s=budget.left_s):
            places = _translated(flow, places)
    places = _with_source_log(spec.source, places, budget)
    with Admin(spec.target, client_id="understudy-groups") as admin:
        places = _with_ends(admin, places, budget)
    states, places = read_target(spec.target, places, budget)
    return Survey(groups=tuple(groups), places=tuple(places), states=states)


def _is_settled(flow: Flow, budget: Budget) -> bool:
    """Whether the reverse flow is stopped, so that both maps together translate each offset."""
    there = reverse_flow_of(flow)
    if there is not None:
        refresh_index(flow=there, deadline_s=budget.left_s)
    return there is not None


def find_groups(
    *, flow: Flow, spec: FlowSpec, now: datetime, budget: Budget
) -> tuple[dict[str, GroupVerdict], str]:
    """List the groups on the source and those that the flow selects; and why some are missing."""
    listed = list_reachable_groups(spec.source, deadline_s=budget.left_s)
    return store_listing(flow=flow, spec=spec, listed=listed, now=now), listed.reason


def read_target(
    target: ClusterSpec, places: Iterable[GroupPartition], budget: Budget
) -> tuple[dict[str, str], list[GroupPartition]]:
    """States first, offsets second: a group that becomes active in between shows in one of them."""
    places = list(places)
    wanted: dict[str, list[TopicPartition]] = {}
    for place in places:
        if place.remote_topic is not None and place.target_end is not None:
            wanted.setdefault(place.group, []).append((place.remote_topic, place.partition))
    if not wanted:
        return {}, places
    listed = list_reachable_groups(target, deadline_s=budget.left_s).groups
    states = {name: listed[name].state for name in wanted if name in listed}
    taken = {
        name: f"{why} on {target.alias}"
        for name in wanted
        if name in listed and (why := name_taken(listed[name].type))
    }
    mine = {name: rows for name, rows in wanted.items() if name not in taken}
    offsets = read_offsets(target, mine, deadline_s=budget.left_s) if mine else Partial()
    return states, [_at_target(place, offsets, taken) for place in places]


def _at_target(
    place: GroupPartition,
    offsets: Partial[str, Partial[TopicPartition, GroupOffset]],
    taken: Mapping[str, str],
) -> GroupPartition:
    if place.remote_topic is None or place.target_end is None:
        return place
    if place.group in taken:
        return dataclasses.replace(place, target_offset=None, target_trouble=taken[place.group])
    if place.group in offsets.failed:
        trouble = offsets.failed[place.group].message
        return dataclasses.replace(place, target_offset=None, target_trouble=trouble)
    found, where = offsets.done[place.group], (place.remote_topic, place.partition)
    error, offset = found.failed.get(where), found.done.get(where)
    return dataclasses.replace(
        place,
        target_offset=offset.offset if offset else None,
        target_trouble=error.message if error else "",
    )


def _on_source(
    source: ClusterSpec, groups: list[str], known: Mapping[str, set[TopicPartition]], budget: Budget
) -> list[GroupPartition]:
    """Every group-partition with an offset now or at the last survey."""
    every: dict[str, Iterable[TopicPartition] | None] = dict.fromkeys(groups)
    found = read_offsets(source, every, deadline_s=budget.left_s)
    lost = {
        group: sorted(before - part.done.keys())
        for group, part in found.done.items()
        if (before := known.get(group, set())) - part.done.keys()
    }
    # Kafka omits what an open transaction holds, unless it is requested by name.
    again = read_offsets(source, lost, deadline_s=budget.left_s) if lost else Partial()
    places: list[GroupPartition] = []
    for group in groups:
        if group in found.failed:
            trouble = found.failed[group].message
            rows = known.get(group, set())
            places += [_troubled(group, place, trouble) for place in sorted(rows)]
            continue
        places += _of_group(group, found.done[group], lost.get(group, []), again)
    return places


def _of_group(
    group: str,
    found: Partial[TopicPartition, GroupOffset],
    lost: list[TopicPartition],
    again: Partial[str, Partial[TopicPartition, GroupOffset]],
) -> Iterable[GroupPartition]:
    second = again.done.get(group, Partial())
    offsets = {**found.done, **second.done}
    for place in sorted({*offsets, *found.failed, *lost}):
        error = found.failed.get(place) or second.failed.get(place) or again.failed.get(group)
        if error is not None:
            yield _troubled(group, place, error.message)
            continue
        at = offsets.get(place)
        yield GroupPartition(
            group=group,
            topic=place[0],
            partition=place[1],
            source_offset=at.offset if at else None,
            metadata=at.metadata if at else "",
        )


def _troubled(group: str, place: TopicPartition, trouble: str) -> GroupPartition:
    return GroupPartition(group=group, topic=place[0], partition=place[1], trouble=trouble)


def _selected(spec: FlowSpec, places: list[GroupPartition]) -> list[GroupPartition]:
    """Each with its remote topic, or why it has none."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    verdicts = {topic: selection.decide(topic) for topic in {place.topic for place in places}}
    return [
        dataclasses.replace(
            place,
            remote_topic=policy.remote_topic(place.topic),
            left_out="" if verdict.replicated else f"it is not replicated: {verdict.reason}",
        )
        for place in places
        for verdict in (verdicts[place.topic],)
    ]


def _mixed(place: GroupPartition) -> GroupPartition:
    """Both directions write into one topic there, in different orders: no offset is right."""
    if place.left_out or place.source_offset is None:
        return place
    found = Translation(
        upstream=place.source_offset, downstream=None, outcome="unknown", reason=_MIXED
    )
    return dataclasses.replace(place, translation=found)


def _answers(places: Iterable[GroupPartition]) -> dict[TopicPartition, list[Translation]]:
    found: dict[TopicPartition, list[Translation]] = {}
    for place in places:
        if place.translation is not None:
            found.setdefault((place.topic, place.partition), []).append(place.translation)
    return found


def _translated(flow: Flow, places: list[GroupPartition]) -> list[GroupPartition]:
    asked: dict[TopicPartition, set[int]] = {}
    for place in places:
        if not place.left_out and place.source_offset is not None:
            asked.setdefault((place.topic, place.partition), set()).add(place.source_offset)
    answers = translate_offsets(flow=flow, places=asked, with_bounds=True)
    found = {(where, row.upstream): row for where, rows in answers.items() for row in rows}
    return [
        dataclasses.replace(
            place,
            translation=found.get(((place.topic, place.partition), place.source_offset or 0)),
        )
        if not place.left_out and place.source_offset is not None
        else place
        for place in places
    ]


def _with_source_log(
    source: ClusterSpec, places: list[GroupPartition], budget: Budget
) -> list[GroupPartition]:
    """Log start and end of each partition: whether a committed offset still exists."""
    wanted = {
        (place.topic, place.partition)
        for place in places
        if not place.left_out and place.source_offset is not None
    }
    if not wanted:
        return places
    with Admin(source, client_id="understudy-groups") as admin:
        starts = admin.list_offsets(wanted, "earliest", deadline_s=budget.left_s).done
        ends = admin.list_offsets(wanted, "latest", deadline_s=budget.left_s).done
    return [
        dataclasses.replace(place, source_start=starts.get(where), source_end=ends.get(where))
        for place in places
        for where in ((place.topic, place.partition),)
    ]


def _with_ends(admin: Admin, places: list[GroupPartition], budget: Budget) -> list[GroupPartition]:
    remote = {place.remote_topic for place in places if not place.left_out and place.remote_topic}
    if not remote:
        return places
    state = admin.snapshot(remote, now=0, deadline_s=budget.left_s, with_configs=False)
    wanted = {
        (name, number) for name, topic in state.topics.items() for number in range(topic.partitions)
    } & {(place.remote_topic or "", place.partition) for place in places}
    ends = admin.list_offsets(wanted, "latest", deadline_s=budget.left_s)
    starts = admin.list_offsets(wanted, "earliest", deadline_s=budget.left_s).done
    found = []
    for place in places:
        where = (place.remote_topic or "", place.partition)
        trouble = state.failed.get(where[0], "")
        if where in ends.failed:
            trouble = ends.failed[where].message
        if trouble and not place.left_out:
            place = dataclasses.replace(place, trouble=place.trouble or trouble)
        found.append(
            dataclasses.replace(
                place, target_start=starts.get(where), target_end=ends.done.get(where)
            )
        )
    return found


def summarize(reasons: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Each reason once, with its count and one example. The rows have the reason of each group."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reason, example in reasons:
        counts[reason] += 1
        examples.setdefault(reason, example)
    return tuple(
        f"{examples[reason]}: {reason}."
        if count == 1
        else f"{count} group-partitions, such as {examples[reason]}: {reason}."
        for reason, count in counts.most_common()
    )


def flow_of(context: SyncTaskContext) -> Flow:
    return Flow.objects.select_related("source", "target").get(pk=context.flow_id)
