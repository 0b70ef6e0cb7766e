"""Consumer groups' offsets on the source: current, or from the last observation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping

from django.db.models import Q

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.plan_types import GroupSnapshot
from mirrors.domain.filters.groups import GroupSelection
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin.groups import GroupOffset as Offset
from mirrors.kafka.admin.groups import list_reachable_groups, read_offsets
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow, GroupOffset
from mirrors.services.clock import milliseconds
from mirrors.services.groups.store import is_storable, known_groups, unread_groups

# How long to wait for a transaction that holds a group's offsets.
HELD_S = 5.0
PAUSE_S = 0.2
NOTHING = "it has no offsets in any topic that this flow replicates"
NOT_SEEN = "its offsets were never read while the source responded"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceGroups:
    """The groups, and why the source is unknown; `away`: it does not respond at all."""

    groups: tuple[GroupSnapshot, ...]
    trouble: str = ""
    away: bool = False


def groups_on_source(
    *,
    flow: Flow,
    spec: FlowSpec,
    names: Iterable[str],
    remote: Mapping[str, str],
    deadline_s: float,
) -> SourceGroups:
    """These groups, or all of the flow; `remote` maps each topic to its remote topic.

    Kafka lists only groups that may be described. One that was known and is not listed was deleted,
    or a right was taken away. Its offsets are requested by name: a refusal is reported.
    """
    asked = sorted(set(names))
    chosen, unlisted = (asked, set()) if asked else _looked_after(flow, spec, deadline_s)
    every: dict[str, Iterable[TopicPartition] | None] = dict.fromkeys([*chosen, *sorted(unlisted)])
    found = read_offsets(spec.source, every, deadline_s=deadline_s)
    known = _known(flow, chosen)
    held = _held_back(spec, known, found, deadline_s)
    pictures = []
    for group in every:
        if group in found.failed:
            pictures.append(GroupSnapshot(group=group, trouble=found.failed[group].message))
            continue
        if group in unlisted:
            # Deleted on the source.
            continue
        group_partitions = tuple(
            _group_partitions(
                group, found.done[group], held.get(group), known.get(group, set()), remote
            )
        )
        if group_partitions or asked:
            trouble = "" if group_partitions else NOTHING
            pictures.append(
                GroupSnapshot(group=group, trouble=trouble, group_partitions=group_partitions)
            )
    return SourceGroups(groups=tuple(pictures))


def groups_from_rows(
    *, flow: Flow, names: Iterable[str], remote: Mapping[str, str]
) -> SourceGroups:
    """As the sync tasks last saw them; the age of a group is its oldest figure's.

    A group-partition whose offset was never read has no offset, and its `trouble` says why.
    """
    asked = sorted(set(names))
    rows = GroupOffset.objects.filter(flow=flow, route="")
    rows = rows.filter(Q(source_offset__isnull=False) | Q(source_unread=True))
    by_group: dict[str, list[GroupOffset]] = {}
    for row in rows.filter(group__in=asked) if asked else rows:
        if row.topic in remote:
            by_group.setdefault(row.group, []).append(row)
    never_read = {} if asked else unread_groups(flow=flow)
    pictures = []
    for group in asked or sorted({*by_group, *never_read}):
        seen = by_group.get(group, [])
        group_partitions = tuple(
            GroupPartition(
                group=group,
                topic=row.topic,
                partition=row.partition,
                remote_topic=remote[row.topic],
                source_offset=row.source_offset,
                trouble=(row.reason or NOT_SEEN) if row.source_offset is None else "",
            )
            for row in seen
        )
        ages = [row.as_of for row in seen if row.source_offset is not None]
        pictures.append(
            GroupSnapshot(
                group=group,
                group_partitions=group_partitions,
                trouble="" if seen else never_read.get(group, NOT_SEEN),
                seen_at=milliseconds(min(ages)) if ages else None,
            )
        )
    return SourceGroups(groups=tuple(pictures))


def _looked_after(flow: Flow, spec: FlowSpec, deadline_s: float) -> tuple[list[str], set[str]]:
    """Groups listed now, and known ones that are not.

    While a broker is silent, those may be coordinated by it: each is then reported with what it
    lacks.
    """
    selection = GroupSelection(spec.settings)
    listed = list_reachable_groups(spec.source, deadline_s=deadline_s)
    chosen = {
        name
        for name, row in listed.groups.items()
        if is_storable(name)
        and selection.decide(name, kind=row.type, protocol=row.protocol_type).chosen
    }
    unlisted = set(known_groups(flow=flow, spec=spec)) - listed.groups.keys()
    if not listed.is_complete:
        chosen, unlisted = chosen | unlisted, set()
    return sorted(chosen), unlisted


def _known(flow: Flow, groups: Iterable[str]) -> dict[str, set[TopicPartition]]:
    found: dict[str, set[TopicPartition]] = {}
    rows = GroupOffset.objects.filter(
        flow=flow, group__in=list(groups), source_offset__isnull=False
    )
    for group, topic, partition in rows.values_list("group", "topic", "partition"):
        found.setdefault(group, set()).add((topic, partition))
    return found


def _held_back(
    spec: FlowSpec,
    known: Mapping[str, set[TopicPartition]],
    found: Partial[str, Partial[TopicPartition, Offset]],
    deadline_s: float,
) -> dict[str, Partial[TopicPartition, Offset]]:
    """Kafka omits an offset that an open transaction holds, unless it is requested by name.

    A committed offset that existed before is requested by name, and reported as held.
    """
    held_now = _busy(found.done)
    lost = {
        group: sorted(places)
        for group, part in found.done.items()
        if (places := {*held_now.get(group, ()), *known.get(group, set()) - part.done.keys()})
    }
    if not lost:
        return {}
    until = time.monotonic() + min(deadline_s, HELD_S)
    held = read_offsets(spec.source, lost, deadline_s=deadline_s).done
    while (busy := _busy(held)) and time.monotonic() + PAUSE_S < until:
        # Exactly-once consumers hold offsets for moments, repeatedly.
        time.sleep(PAUSE_S)
        again = read_offsets(spec.source, busy, deadline_s=deadline_s).done
        for group, part in again.items():
            for tp in part.done:
                held[group].failed.pop(tp, None)
            held[group].done |= part.done
    return held


def _busy(held: Mapping[str, Partial[TopicPartition, Offset]]) -> dict[str, list[TopicPartition]]:
    found = {
        group: [tp for tp, error in part.failed.items() if error.code == "busy"]
        for group, part in held.items()
    }
    return {group: partitions for group, partitions in found.items() if partitions}


def _group_partitions(
    group: str,
    found: Partial[TopicPartition, Offset],
    held: Partial[TopicPartition, Offset] | None,
    known: set[TopicPartition],
    remote: Mapping[str, str],
) -> Iterator[GroupPartition]:
    done, failed = dict(found.done), dict(found.failed)
    if held is not None:
        done |= held.done
        failed = {tp: error for tp, error in failed.items() if tp not in held.done}
        failed |= held.failed
    # A known offset that is missing now has expired or was deleted: it is reported.
    for topic, partition in sorted({*done, *failed, *known}):
        if topic not in remote:
            continue
        error = failed.get((topic, partition))
        offset = done.get((topic, partition))
        yield GroupPartition(
            group=group,
            topic=topic,
            partition=partition,
            remote_topic=remote[topic],
            trouble=error.message if error else "",
            source_offset=offset.offset if offset else None,
        )
