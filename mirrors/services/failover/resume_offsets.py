"""Resume offsets of the groups in a failover plan, from stored runs and the target's log ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.plan_types import GroupSnapshot, PartitionSnapshot
from mirrors.domain.groups.checkpoints import name_taken
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.admin.groups import GroupListing
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow
from mirrors.services.offsets.reverse_translation import blocked_home, translate_to_origin
from mirrors.services.offsets.translation import translate_offsets


def with_resume_offsets(
    flow: Flow,
    groups: Iterable[GroupSnapshot],
    source: Iterable[PartitionSnapshot],
    target: tuple[Mapping[TopicPartition, int], Partial[TopicPartition, int]],
    listed: Mapping[str, GroupListing],
    home: Mapping[TopicPartition, TopicPartition],
    positions: Mapping[TopicPartition, int],
) -> Iterator[GroupSnapshot]:
    """Each group-partition with its translation and both logs' ends, each group with its state.

    `source`: the partitions as last seen on the source.
    `listed`: the groups of the target.
    `home`: remote partitions on the source that came from the target and map back to themselves.
    `positions`: how far each partition was replicated when the picture was taken.
    """
    blocked = blocked_home(flow)
    groups = [_without_blocked(_known(group, home), blocked) for group in groups]
    seen = {(row.topic, row.partition): row for row in source}
    group_partitions = [
        group_partition for group in groups for group_partition in group.group_partitions
    ]
    known: dict[tuple[str, TopicPartition, int], Translation] = {}
    for route in {group_partition.route for group_partition in group_partitions}:
        mine = [one for one in group_partitions if one.route == route]
        known |= _translations(flow, _asked(mine, seen), home, positions, route)
    for group in groups:
        yield dataclasses.replace(
            group,
            group_partitions=tuple(
                _with_ends(group_partition, seen, known, *target)
                for group_partition in group.group_partitions
            ),
            target_state=listed[group.group].state if group.group in listed else "",
            taken=name_taken(listed[group.group].type) if group.group in listed else "",
        )


def _asked(
    group_partitions: Iterable[GroupPartition], source: Mapping[TopicPartition, PartitionSnapshot]
) -> dict[TopicPartition, set[int]]:
    """The groups' offsets, and the log start offsets of their partitions."""
    asked: dict[TopicPartition, set[int]] = {}
    for group_partition in group_partitions:
        where = (group_partition.topic, group_partition.partition)
        start = source[where].source_start if where in source else None
        offsets = {
            offset for offset in (group_partition.source_offset, start) if offset is not None
        }
        if group_partition.source_offset is not None:
            asked.setdefault(where, set()).update(offsets)
    return asked


def _translations(
    flow: Flow,
    asked: Mapping[TopicPartition, set[int]],
    home: Mapping[TopicPartition, TopicPartition],
    positions: Mapping[TopicPartition, int],
    route: str,
) -> dict[tuple[str, TopicPartition, int], Translation]:
    away = {tp: rows for tp, rows in asked.items() if tp not in home}
    answers = translate_offsets(
        flow=flow, partitions=away, positions=positions, with_bounds=True, route=route
    )
    answers |= translate_to_origin(flow, {tp: asked[tp] for tp in asked.keys() & home.keys()})
    return {(route, where, row.upstream): row for where, rows in answers.items() for row in rows}


def replicated_end_offsets(
    flow: Flow, positions: Mapping[TopicPartition, int], route: str = ""
) -> dict[TopicPartition, int]:
    """Target offset after the last record that these positions cover; markers do not count."""
    asked = {tp: [position] for tp, position in positions.items()}
    found = translate_offsets(flow=flow, partitions=asked, positions=positions, route=route)
    return {
        tp: rows[0].downstream
        for tp, rows in found.items()
        if rows and rows[0].downstream is not None
    }


def _with_ends(
    group_partition: GroupPartition,
    source: Mapping[TopicPartition, PartitionSnapshot],
    known: Mapping[tuple[str, TopicPartition, int], Translation],
    starts: Mapping[TopicPartition, int],
    ends: Partial[TopicPartition, int],
) -> GroupPartition:
    """Adds the translation, and both logs' start and end."""
    here, there = (
        (group_partition.topic, group_partition.partition),
        (group_partition.remote_topic or "", group_partition.partition),
    )
    row = source.get(here)
    start = None if row is None else row.source_start
    route = group_partition.route
    kept = None if start is None else known.get((route, here, start))
    # A partition without a response may still exist.
    silence = ends.failed[there].message if there in ends.failed else ""
    offset = group_partition.source_offset
    return dataclasses.replace(
        group_partition,
        translation=group_partition.translation if offset is None else known[route, here, offset],
        source_start=start,
        source_end=None if row is None else row.source_last,
        kept_from=None if kept is None else kept.downstream,
        target_start=starts.get(there),
        target_end=ends.done.get(there),
        trouble=group_partition.trouble or silence,
    )


def _known(group: GroupSnapshot, home: Mapping[TopicPartition, TopicPartition]) -> GroupSnapshot:
    """Without partitions that no flow can translate back: their origin is unknown."""
    if not home:
        return group
    names = {topic for topic, _ in home}
    kept = [
        group_partition
        for group_partition in group.group_partitions
        if group_partition.topic not in names
        or (group_partition.topic, group_partition.partition) in home
    ]
    return dataclasses.replace(group, group_partitions=tuple(kept))


def _without_blocked(group: GroupSnapshot, blocked: Mapping[TopicPartition, str]) -> GroupSnapshot:
    """A failback leaves out a topic that is not the one that was replicated, with its groups."""
    if not blocked:
        return group
    group_partitions = (
        dataclasses.replace(
            group_partition,
            left_out=blocked.get((group_partition.topic, group_partition.partition), ""),
        )
        for group_partition in group.group_partitions
    )
    return dataclasses.replace(group, group_partitions=tuple(group_partitions))
