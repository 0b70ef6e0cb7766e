"""Rows of a flow's groups: the groups, their offsets, and what the flow committed for them."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.filters.groups import GroupSelection, GroupVerdict
from mirrors.domain.groups.checkpoints import OffsetUpdate
from mirrors.domain.groups.resume import GroupPartition, resume_offset_of, source_lag_of
from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.domain.patterns.renames import LONGEST_NAME
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin.groups import GroupListing, GroupListings
from mirrors.models import Flow, GroupOffset
from mirrors.models.groups.offsets import LONGEST_GROUP, NO_PARTITION
from mirrors.models.groups.summaries import refresh_summaries

Key = tuple[str, str, int, str]
EXCLUDED = "excluded"
_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}")
_BATCH = 500
_LONGEST_STATE = 32
_NEW = "found on the source; the next run reads its offsets"
_NO_OFFSETS = "the group has no committed offset on the source"
# States of a group without group-partitions whose offsets were never read.
_NOT_READ, _FAILED = "waiting", "failed"
_KEY = ("flow", "group", "topic", "partition", "route")
_FIELDS = (
    "remote_topic",
    "source_offset",
    "translated_offset",
    "target_offset",
    "outcome",
    "sync_state",
    "reason",
    "wrote",
    "source_lag",
    "re_reads",
    "offset_since",
    "source_unread",
)


def is_storable(group: str) -> bool:
    """Whether the database can store the name; Kafka itself sets no limit."""
    return 0 < len(group) <= LONGEST_GROUP and "\0" not in group


def is_valid_checkpoint(row: Checkpoint) -> bool:
    """Skips invalid partitions: other programs write to the topic too."""
    named = _TOPIC.fullmatch(row.topic) is not None and row.partition >= 0
    return named and is_storable(row.group)


def has_listing(*, flow: Flow) -> bool:
    return GroupOffset.objects.filter(flow=flow).exists()


def known_groups(*, flow: Flow, spec: FlowSpec) -> list[str]:
    """The groups that the last listing found and the settings select."""
    rows = GroupOffset.objects.filter(flow=flow).exclude(sync_state=EXCLUDED)
    names = rows.order_by("group").values_list("group", flat=True).distinct()
    selection = GroupSelection(spec.settings)
    return [name for name in names if selection.decide(name).chosen]


def known_partitions(*, flow: Flow) -> dict[str, set[TopicPartition]]:
    """Partitions in which each group had an offset at the last survey, on either side."""
    found: dict[str, set[TopicPartition]] = {}
    rows = GroupOffset.objects.filter(flow=flow, partition__gt=NO_PARTITION).order_by()
    for group, topic, partition in rows.values_list("group", "topic", "partition"):
        found.setdefault(group, set()).add((topic, partition))
    return found


def unread_groups(*, flow: Flow) -> dict[str, str]:
    """Groups on the source whose offsets were never read, with the reason."""
    rows = GroupOffset.objects.filter(flow=flow, partition=NO_PARTITION).order_by()
    return dict(rows.filter(sync_state__in=(_NOT_READ, _FAILED)).values_list("group", "reason"))


def written_offsets(*, flow: Flow) -> dict[Key, int]:
    """The last offset that the flow committed for each group, or found equal to the source's."""
    rows = GroupOffset.objects.filter(flow=flow, wrote__isnull=False).order_by()
    return {
        (group, topic, partition, route): wrote
        for group, topic, partition, route, wrote in rows.values_list(
            "group", "topic", "partition", "route", "wrote"
        )
        if wrote is not None
    }


def store_listing(
    *, flow: Flow, spec: FlowSpec, listed: GroupListings, now: datetime
) -> dict[str, GroupVerdict]:
    """Store which groups the source has; returns the verdict on each.

    While a broker is silent, an unlisted group may be coordinated by it, so its rows stay.
    """
    selection = GroupSelection(spec.settings)
    verdicts = {
        name: _verdict(selection, group)
        for name, group in listed.groups.items()
        if is_storable(name)
    }
    with transaction.atomic():
        rows = GroupOffset.objects.filter(flow=flow)
        seen = rows.order_by("partition").values_list("group", "sync_state", "reason")
        before = {group: (state, reason) for group, state, reason in seen}
        # Rows of a group remain as long as the target has its offsets.
        if listed.is_complete:
            _delete(flow, before.keys() - verdicts.keys(), whole_only=True)
        changed = {
            name: verdict
            for name, verdict in verdicts.items()
            if _is_news(verdict, *before.get(name, ("", "")))
        }
        _delete(flow, changed)
        fresh = [
            GroupOffset(
                flow=flow,
                group=name,
                sync_state=_NOT_READ if verdict.chosen else EXCLUDED,
                reason=_NEW if verdict.chosen else verdict.reason,
                source_state=listed.groups[name].state[:_LONGEST_STATE],
                as_of=now,
            )
            for name, verdict in changed.items()
        ]
        GroupOffset.objects.bulk_create(fresh, batch_size=_BATCH)
        rows.filter(sync_state=EXCLUDED).update(as_of=now)
        _store_states(flow, listed)
        refresh_summaries(flow)
    return verdicts


def _store_states(flow: Flow, listed: GroupListings) -> None:
    """Write the states on the source that changed; a group that was not listed has none."""
    rows = GroupOffset.objects.filter(flow=flow).order_by()
    changed: dict[str, set[str]] = {}
    for name, before in rows.values_list("group", "source_state").distinct():
        group = listed.groups.get(name)
        state = group.state[:_LONGEST_STATE] if group is not None else ""
        if state != before:
            changed.setdefault(state, set()).add(name)
    for state, found in changed.items():
        names = sorted(found)
        for start in range(0, len(names), _BATCH):
            rows.filter(group__in=names[start : start + _BATCH]).update(source_state=state)


def store_offset_updates(
    *,
    flow: Flow,
    groups: Collection[str],
    found: Iterable[tuple[GroupPartition, OffsetUpdate]],
    now: datetime,
    unreadable: Mapping[str, str] | None = None,
) -> None:
    """Make the rows of these groups equal to the survey; without offsets there is no row.

    Where the survey could not read an offset, the row keeps the last one with its age: a plan
    needs it when the whole source is lost. `unreadable`: groups without any known offset, with the
    reason.
    """
    found, never_read = list(found), unreadable or {}
    wrote = written_offsets(flow=flow)
    rows = [
        _row(flow, group_partition, move, wrote.get(group_partition.key), now)
        for group_partition, move in found
        if group_partition.source_offset is not None
        or group_partition.target_offset is not None
        or group_partition.trouble
        or group_partition.target_trouble
    ]
    chosen = set(groups)
    rows += [
        GroupOffset(
            flow=flow,
            group=name,
            sync_state=_FAILED if name in never_read else "unknown",
            reason=never_read.get(name, _NO_OFFSETS),
            as_of=now,
        )
        for name in sorted(chosen - {row.group for row in rows})
    ]
    unread = {group_partition.key for group_partition, _ in found if group_partition.is_unread}
    with transaction.atomic():
        known = _stored(flow)
        kept = [row for row in rows if _key(row) in unread and _keep_offset(row, known)]
        fresh = [row for row in rows if row.as_of == now]
        for row in fresh:
            _keep_offset_age(row, known.get(_key(row)), now)
        changed = [row for row in fresh if _values(row) != known.get(_key(row), _NOT_STORED).values]
        there = set(map(_key, rows))
        gone = [row.pk for key, row in known.items() if key[0] in chosen and key not in there]
        for start in range(0, len(gone), _BATCH):
            GroupOffset.objects.filter(pk__in=gone[start : start + _BATCH]).delete()
        _upsert(changed)
        # Most rows are as they were: one statement instead of writing each.
        same = _surveyed(flow).filter(as_of__lt=now)
        same.exclude(group__in={key[0] for key in known} - chosen).update(as_of=now)
        _upsert(kept)
        refresh_summaries(flow)


def _upsert(rows: list[GroupOffset]) -> None:
    GroupOffset.objects.bulk_create(
        rows,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=_KEY,
        update_fields=[*_FIELDS, "as_of"],
    )


class _Stored(NamedTuple):
    pk: int
    as_of: datetime | None
    values: tuple[Any, ...]


_NOT_STORED = _Stored(0, None, ())


def _surveyed(flow: Flow) -> QuerySet[GroupOffset]:
    return GroupOffset.objects.filter(flow=flow).exclude(sync_state=EXCLUDED).order_by()


def _stored(flow: Flow) -> dict[Key, _Stored]:
    rows = _surveyed(flow).values_list("pk", "as_of", *_KEY[1:], *_FIELDS)
    return {
        (group, topic, partition, route): _Stored(pk, as_of, tuple(values))
        for pk, as_of, group, topic, partition, route, *values in rows
    }


def _key(row: GroupOffset) -> Key:
    return row.group, row.topic, row.partition, row.route


_values = operator.attrgetter(*_FIELDS)


def _keep_offset(row: GroupOffset, known: Mapping[Key, _Stored]) -> bool:
    """Keep the last offset with its age, also that there was none; False if it was never read.

    The row says why it is not newer.
    """
    before = known.get(_key(row), _NOT_STORED)
    figures = dict(zip(_FIELDS, before.values, strict=False))
    if before.as_of is None or figures["source_unread"]:
        return False
    row.source_offset, row.offset_since = figures["source_offset"], figures["offset_since"]
    row.as_of, row.source_unread = before.as_of, False
    return True


def _keep_offset_age(row: GroupOffset, known: _Stored | None, now: datetime) -> None:
    """An offset that the last survey found too keeps its age."""
    if row.source_offset is None:
        return
    before = {} if known is None else dict(zip(_FIELDS, known.values, strict=True))
    same = before.get("source_offset") == row.source_offset
    row.offset_since = (before["offset_since"] if same else None) or now


def _row(
    flow: Flow,
    group_partition: GroupPartition,
    move: OffsetUpdate,
    wrote: int | None,
    now: datetime,
) -> GroupOffset:
    resume = resume_offset_of(group_partition)
    if move.state in ("moved", "in_sync"):
        wrote = group_partition.target_offset
    return GroupOffset(
        flow=flow,
        group=group_partition.group,
        topic=group_partition.topic,
        partition=group_partition.partition,
        route=group_partition.route,
        remote_topic="" if group_partition.left_out else group_partition.remote_topic or "",
        source_offset=group_partition.source_offset,
        translated_offset=resume.downstream,
        target_offset=group_partition.target_offset,
        outcome=resume.outcome
        if group_partition.translation or resume.downstream is not None
        else "",
        sync_state=move.state,
        reason=move.reason or resume.reason,
        wrote=wrote,
        source_lag=source_lag_of(group_partition),
        re_reads=resume.re_reads,
        source_unread=group_partition.is_unread,
        as_of=now,
    )


def _verdict(selection: GroupSelection, group: GroupListing) -> GroupVerdict:
    return selection.decide(group.name, kind=group.type, protocol=group.protocol_type)


def _is_news(verdict: GroupVerdict, state: str, reason: str) -> bool:
    if verdict.chosen:
        return state in ("", EXCLUDED)
    return (state, reason) != (EXCLUDED, verdict.reason)


def _delete(flow: Flow, groups: Collection[str], *, whole_only: bool = False) -> None:
    names = sorted(groups)
    for start in range(0, len(names), _BATCH):
        rows = GroupOffset.objects.filter(flow=flow, group__in=names[start : start + _BATCH])
        (rows.filter(partition=NO_PARTITION) if whole_only else rows).delete()
