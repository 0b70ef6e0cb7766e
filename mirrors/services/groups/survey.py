"""Survey of a flow's groups: offsets on both clusters and resume offsets, without changing them.

The order of the reads keeps results from being ahead: source offsets, positions and runs, both
logs' ends. The states on the target are read last, as close to a write as possible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.filters.groups import GroupVerdict
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.groups.checkpoints import name_taken
from mirrors.domain.groups.reasons import summarize
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.domain.transforms.rules import TransformRule, routes_of
from mirrors.kafka.admin.groups import GroupOffset, list_reachable_groups, read_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow
from mirrors.services.clock import Budget, moment
from mirrors.services.groups.store import has_listing, known_groups, known_partitions, store_listing
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
    """All group-partitions of the selected groups; `states` of those that the target has.

    `unreadable`: groups whose offsets were never read, neither now nor earlier, with the reason.
    """

    groups: tuple[str, ...]
    group_partitions: tuple[GroupPartition, ...]
    states: dict[str, str]
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def troubles(self) -> Iterator[tuple[str, str]]:
        """Reason and name of each unreadable group, for `summarize`."""
        return ((reason, name) for name, reason in self.unreadable.items())


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
    known = known_partitions(flow=flow)
    seen, unreadable = _on_source(spec.source, groups, known, budget)
    group_partitions = _selected(spec, seen)
    refresh_index(flow=flow, deadline_s=budget.left_s)
    if spec.settings.skip_replicated and not _is_settled(flow, budget):
        group_partitions = [_mixed(group_partition) for group_partition in group_partitions]
    else:
        group_partitions = _translated(flow, group_partitions)
        if find_bounds(flow=flow, answers=_answers(group_partitions), deadline_s=budget.left_s):
            group_partitions = _translated(flow, group_partitions)
    group_partitions = _with_source_log(spec.source, group_partitions, budget)
    with Admin(spec.target, client_id="understudy-groups") as admin:
        group_partitions = _with_ends(admin, group_partitions, budget)
    states, group_partitions = read_target(spec.target, group_partitions, budget)
    return Survey(
        groups=tuple(groups),
        group_partitions=tuple(group_partitions),
        states=states,
        unreadable=unreadable,
    )


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
    target: ClusterSpec, group_partitions: Iterable[GroupPartition], budget: Budget
) -> tuple[dict[str, str], list[GroupPartition]]:
    """States first, offsets second: a group that becomes active in between shows in one of them."""
    group_partitions = list(group_partitions)
    wanted: dict[str, list[TopicPartition]] = {}
    for group_partition in group_partitions:
        if group_partition.remote_topic is not None and group_partition.target_end is not None:
            wanted.setdefault(group_partition.group, []).append(
                (group_partition.remote_topic, group_partition.partition)
            )
    if not wanted:
        return {}, group_partitions
    listed = list_reachable_groups(target, deadline_s=budget.left_s).groups
    states = {name: listed[name].state for name in wanted if name in listed}
    taken = {
        name: f"{why} on {target.alias}"
        for name in wanted
        if name in listed and (why := name_taken(listed[name].type))
    }
    mine = {name: rows for name, rows in wanted.items() if name not in taken}
    offsets = read_offsets(target, mine, deadline_s=budget.left_s) if mine else Partial()
    return states, [
        _at_target(group_partition, offsets, taken) for group_partition in group_partitions
    ]


def _at_target(
    group_partition: GroupPartition,
    offsets: Partial[str, Partial[TopicPartition, GroupOffset]],
    taken: Mapping[str, str],
) -> GroupPartition:
    if group_partition.remote_topic is None or group_partition.target_end is None:
        return group_partition
    if group_partition.group in taken:
        return dataclasses.replace(
            group_partition, target_offset=None, target_trouble=taken[group_partition.group]
        )
    if group_partition.group in offsets.failed:
        trouble = offsets.failed[group_partition.group].message
        return dataclasses.replace(group_partition, target_offset=None, target_trouble=trouble)
    found, where = (
        offsets.done[group_partition.group],
        (group_partition.remote_topic, group_partition.partition),
    )
    error, offset = found.failed.get(where), found.done.get(where)
    return dataclasses.replace(
        group_partition,
        target_offset=offset.offset if offset else None,
        target_trouble=error.message if error else "",
    )


def _on_source(
    source: ClusterSpec, groups: list[str], known: Mapping[str, set[TopicPartition]], budget: Budget
) -> tuple[list[GroupPartition], dict[str, str]]:
    """Every group-partition with an offset now or at the last survey.

    And the groups whose offsets were never read, with the reason.
    """
    every: dict[str, Iterable[TopicPartition] | None] = dict.fromkeys(groups)
    found = read_offsets(source, every, deadline_s=budget.left_s)
    lost = {
        group: sorted(before - part.done.keys())
        for group, part in found.done.items()
        if (before := known.get(group, set())) - part.done.keys()
    }
    # Kafka omits what an open transaction holds, unless it is requested by name.
    again = read_offsets(source, lost, deadline_s=budget.left_s) if lost else Partial()
    group_partitions: list[GroupPartition] = []
    unreadable: dict[str, str] = {}
    for group in groups:
        if group in found.failed:
            trouble = found.failed[group].message
            rows = [_troubled(group, tp, trouble) for tp in sorted(known.get(group, set()))]
            group_partitions += rows
            if not rows:
                unreadable[group] = f"its offsets on the source could not be read: {trouble}"
            continue
        group_partitions += _of_group(group, found.done[group], lost.get(group, []), again)
    return group_partitions, unreadable


def _of_group(
    group: str,
    found: Partial[TopicPartition, GroupOffset],
    lost: list[TopicPartition],
    again: Partial[str, Partial[TopicPartition, GroupOffset]],
) -> Iterable[GroupPartition]:
    second = again.done.get(group, Partial())
    offsets = {**found.done, **second.done}
    for tp in sorted({*offsets, *found.failed, *lost}):
        error = found.failed.get(tp) or second.failed.get(tp) or again.failed.get(group)
        if error is not None:
            yield _troubled(group, tp, error.message)
            continue
        at = offsets.get(tp)
        yield GroupPartition(
            group=group,
            topic=tp[0],
            partition=tp[1],
            source_offset=at.offset if at else None,
            metadata=at.metadata if at else "",
        )


def _troubled(group: str, tp: TopicPartition, trouble: str) -> GroupPartition:
    return GroupPartition(group=group, topic=tp[0], partition=tp[1], trouble=trouble)


def _selected(spec: FlowSpec, group_partitions: list[GroupPartition]) -> list[GroupPartition]:
    """Each with its remote topic, or why it has none."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    verdicts = {
        topic: selection.decide(topic)
        for topic in {group_partition.topic for group_partition in group_partitions}
    }
    return [
        dataclasses.replace(
            group_partition,
            remote_topic=group_partition.route or policy.remote_topic(group_partition.topic),
            left_out="" if verdict.replicated else f"it is not replicated: {verdict.reason}",
        )
        for group_partition in with_routes(group_partitions, spec.settings.transforms)
        for verdict in (verdicts[group_partition.topic],)
    ]


def with_routes(
    group_partitions: Iterable[GroupPartition], rules: Sequence[TransformRule]
) -> Iterator[GroupPartition]:
    """A row for each target topic: that of the policy, and those that a rule names."""
    for group_partition in group_partitions:
        yield group_partition
        for route in routes_of(group_partition.topic, rules):
            yield dataclasses.replace(group_partition, route=route, remote_topic=route)


def _mixed(group_partition: GroupPartition) -> GroupPartition:
    """Both directions write into one topic there, in different orders: no offset is right."""
    if group_partition.left_out or group_partition.source_offset is None:
        return group_partition
    found = Translation(
        upstream=group_partition.source_offset, downstream=None, outcome="unknown", reason=_MIXED
    )
    return dataclasses.replace(group_partition, translation=found)


def _answers(group_partitions: Iterable[GroupPartition]) -> dict[TopicPartition, list[Translation]]:
    found: dict[TopicPartition, list[Translation]] = {}
    for group_partition in group_partitions:
        if group_partition.translation is not None and not group_partition.route:
            found.setdefault((group_partition.topic, group_partition.partition), []).append(
                group_partition.translation
            )
    return found


def _translated(flow: Flow, group_partitions: list[GroupPartition]) -> list[GroupPartition]:
    asked: dict[str, dict[TopicPartition, set[int]]] = {}
    for group_partition in group_partitions:
        if not group_partition.left_out and group_partition.source_offset is not None:
            where = (group_partition.topic, group_partition.partition)
            mine = asked.setdefault(group_partition.route, {})
            mine.setdefault(where, set()).add(group_partition.source_offset)
    found = {
        (route, where, row.upstream): row
        for route, mine in asked.items()
        for where, rows in translate_offsets(
            flow=flow, partitions=mine, with_bounds=True, route=route
        ).items()
        for row in rows
    }
    return [
        dataclasses.replace(
            group_partition,
            translation=found.get(
                (
                    group_partition.route,
                    (group_partition.topic, group_partition.partition),
                    group_partition.source_offset or 0,
                )
            ),
        )
        if not group_partition.left_out and group_partition.source_offset is not None
        else group_partition
        for group_partition in group_partitions
    ]


def _with_source_log(
    source: ClusterSpec, group_partitions: list[GroupPartition], budget: Budget
) -> list[GroupPartition]:
    """Log start and end of each partition: whether a committed offset still exists."""
    wanted = {
        (group_partition.topic, group_partition.partition)
        for group_partition in group_partitions
        if not group_partition.left_out and group_partition.source_offset is not None
    }
    if not wanted:
        return group_partitions
    with Admin(source, client_id="understudy-groups") as admin:
        starts = admin.list_offsets(wanted, "earliest", deadline_s=budget.left_s).done
        ends = admin.list_offsets(wanted, "latest", deadline_s=budget.left_s).done
    return [
        dataclasses.replace(
            group_partition, source_start=starts.get(where), source_end=ends.get(where)
        )
        for group_partition in group_partitions
        for where in ((group_partition.topic, group_partition.partition),)
    ]


def _with_ends(
    admin: Admin, group_partitions: list[GroupPartition], budget: Budget
) -> list[GroupPartition]:
    remote = {
        group_partition.remote_topic
        for group_partition in group_partitions
        if not group_partition.left_out and group_partition.remote_topic
    }
    if not remote:
        return group_partitions
    state = admin.snapshot(remote, now=0, deadline_s=budget.left_s, with_configs=False)
    wanted = {
        (name, number) for name, topic in state.topics.items() for number in range(topic.partitions)
    } & {
        (group_partition.remote_topic or "", group_partition.partition)
        for group_partition in group_partitions
    }
    ends = admin.list_offsets(wanted, "latest", deadline_s=budget.left_s)
    starts = admin.list_offsets(wanted, "earliest", deadline_s=budget.left_s).done
    found = []
    for group_partition in group_partitions:
        where = (group_partition.remote_topic or "", group_partition.partition)
        trouble = state.failed.get(where[0], "")
        if where in ends.failed:
            trouble = ends.failed[where].message
        if group_partition.left_out:
            trouble = ""
        if trouble and group_partition.has_no_offset:
            # The source responded: its offset is not unread.
            group_partition = dataclasses.replace(group_partition, target_trouble=trouble)
        elif trouble:
            group_partition = dataclasses.replace(
                group_partition, trouble=group_partition.trouble or trouble
            )
        found.append(
            dataclasses.replace(
                group_partition, target_start=starts.get(where), target_end=ends.done.get(where)
            )
        )
    return found


def flow_of(context: SyncTaskContext) -> Flow:
    return Flow.objects.select_related("source", "target").get(pk=context.flow_id)
