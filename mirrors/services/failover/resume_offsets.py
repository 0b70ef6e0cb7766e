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
    places = [place for group in groups for place in group.places]
    known = _translations(flow, _asked(places, seen), home, positions)
    for group in groups:
        yield dataclasses.replace(
            group,
            places=tuple(_with_ends(place, seen, known, *target) for place in group.places),
            target_state=listed[group.group].state if group.group in listed else "",
            taken=name_taken(listed[group.group].type) if group.group in listed else "",
        )


def _asked(
    places: Iterable[GroupPartition], source: Mapping[TopicPartition, PartitionSnapshot]
) -> dict[TopicPartition, set[int]]:
    """The groups' offsets, and the log start offsets of their partitions."""
    asked: dict[TopicPartition, set[int]] = {}
    for place in places:
        where = (place.topic, place.partition)
        start = source[where].source_start if where in source else None
        offsets = {offset for offset in (place.source_offset, start) if offset is not None}
        if place.source_offset is not None:
            asked.setdefault(where, set()).update(offsets)
    return asked


def _translations(
    flow: Flow,
    asked: Mapping[TopicPartition, set[int]],
    home: Mapping[TopicPartition, TopicPartition],
    positions: Mapping[TopicPartition, int],
) -> dict[tuple[TopicPartition, int], Translation]:
    away = {place: rows for place, rows in asked.items() if place not in home}
    answers = translate_offsets(flow=flow, places=away, positions=positions, with_bounds=True)
    answers |= translate_to_origin(
        flow, {place: asked[place] for place in asked.keys() & home.keys()}
    )
    return {(where, row.upstream): row for where, rows in answers.items() for row in rows}


def replicated_end_offsets(
    flow: Flow, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Target offset after the last record that these positions cover; markers do not count."""
    asked = {place: [position] for place, position in positions.items()}
    found = translate_offsets(flow=flow, places=asked, positions=positions)
    return {
        place: rows[0].downstream
        for place, rows in found.items()
        if rows and rows[0].downstream is not None
    }


def _with_ends(
    place: GroupPartition,
    source: Mapping[TopicPartition, PartitionSnapshot],
    known: Mapping[tuple[TopicPartition, int], Translation],
    starts: Mapping[TopicPartition, int],
    ends: Partial[TopicPartition, int],
) -> GroupPartition:
    """Adds the translation, and both logs' start and end."""
    here, there = (place.topic, place.partition), (place.remote_topic or "", place.partition)
    row = source.get(here)
    start = None if row is None else row.source_start
    kept = None if start is None else known.get((here, start))
    # A partition without a response may still exist.
    silence = ends.failed[there].message if there in ends.failed else ""
    offset = place.source_offset
    return dataclasses.replace(
        place,
        translation=place.translation if offset is None else known[here, offset],
        source_start=start,
        source_end=None if row is None else row.source_last,
        kept_from=None if kept is None else kept.downstream,
        target_start=starts.get(there),
        target_end=ends.done.get(there),
        trouble=place.trouble or silence,
    )


def _known(group: GroupSnapshot, home: Mapping[TopicPartition, TopicPartition]) -> GroupSnapshot:
    """Without partitions that no flow can translate back: their origin is unknown."""
    names = {topic for topic, _ in home}
    kept = [
        place
        for place in group.places
        if place.topic not in names or (place.topic, place.partition) in home
    ]
    return dataclasses.replace(group, places=tuple(kept))


def _without_blocked(group: GroupSnapshot, blocked: Mapping[TopicPartition, str]) -> GroupSnapshot:
    """A failback leaves out a topic that is not the one that was replicated, with its groups."""
    places = (
        dataclasses.replace(place, left_out=blocked.get((place.topic, place.partition), ""))
        for place in group.places
    )
    return dataclasses.replace(group, places=tuple(places))
