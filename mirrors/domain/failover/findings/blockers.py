"""The blockers and warnings of a failover."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

from mirrors.domain.account.partition import Certainty as OwedCertainty
from mirrors.domain.account.sentences import amount
from mirrors.domain.account.sentences import owed as owed_text
from mirrors.domain.account.totals import total
from mirrors.domain.failover.findings.drift import drift_blockers, drift_warnings
from mirrors.domain.failover.findings.partition_blockers import (
    ended,
    not_copied_blockers,
    partition_blockers,
)
from mirrors.domain.failover.findings.permissions import (
    fence_warnings,
    permission_blockers,
    permission_warnings,
    where_missing,
)
from mirrors.domain.failover.partitions import PartitionAccount
from mirrors.domain.failover.plan_types import (
    FailoverSnapshot,
    Finding,
    GroupPartitionPlan,
    GroupSnapshot,
    PartitionPlan,
)
from mirrors.domain.formatting import duration, plural
from mirrors.domain.groups.checkpoints import IDLE
from mirrors.domain.groups.reasons import name_of
from mirrors.domain.groups.resume import GroupPartition

# Names listed in one sentence.
NAMED = 5
# The offsets of a group are unknown: the source refused, or it is lost and they were never read.
NO_GROUPS, NEVER_READ = "no_groups", "never_read"
UNREAD = (NO_GROUPS, NEVER_READ)


def find_blockers(
    picture: FailoverSnapshot,
    parts: Sequence[PartitionAccount],
    group_partitions: tuple[GroupPartitionPlan, ...],
    oldest_ms: int,
) -> Iterator[Finding]:
    """Yield the blockers. `picture` holds what takes part, `parts` all that the flow selects."""
    if picture.writing:
        yield Finding(code="writing", where=picture.flow, sentence=picture.writing, page="jobs")
    if picture.not_running and (owing := _amount_owed(parts)):
        text = (
            f"{picture.flow} is {picture.not_running}, and {owing} would not be replicated: a "
            "switchover would wait for them until its time limit. Start the flow, or fail over "
            "without them."
        )
        yield Finding(code="not_running", where=picture.flow, sentence=text, page="jobs")
    if picture.not_visible:
        text = f"{picture.not_visible} Their records would be lost; how many is unknown."
        yield Finding(code="not_visible", where=picture.source, sentence=text, page="source")
    yield from (row for row in picture.boundary if row.code == "scope_empty")
    out = _not_taking_part(parts)
    names = _topics(picture, parts)
    beside = tuple(
        dataclasses.replace(row, topic=names.get(_name_in(row), ""))
        for row in _topic_and_permission_blockers(picture)
        if _name_in(row) not in out
    )
    yield from beside
    yield from not_copied_blockers(picture, parts)
    reported = {finding.where for finding in beside}
    for part in parts:
        if part.role == "replicated":
            yield from partition_blockers(picture, part, reported)
    for group in picture.groups:
        yield from _group_blockers(picture, group, oldest_ms)
    unread = _unread_without_source(picture)
    yield from map(functools.partial(_never_read, picture), unread.values())
    for group_partition in group_partitions:
        if group_partition.downstream_offset is None and group_partition.key not in unread:
            where = name_of(*group_partition.key)
            text = (
                f"{where} has no resume offset: {ended(group_partition.reason)} To switch the "
                "other groups over, simulate without this group. Start it at the earliest record, "
                "never at the latest."
            )
            yield Finding(code="no_map", where=where, sentence=text, page="groups")


def _unread_without_source(
    picture: FailoverSnapshot,
) -> dict[tuple[str, str, int, str], GroupPartition]:
    """Return group-partitions whose offset was never read, if the source is lost."""
    if not picture.source_trouble:
        return {}
    return {
        row.key: row
        for group in picture.groups
        for row in group.group_partitions
        if row.is_unread and not row.left_out
    }


def _never_read(picture: FailoverSnapshot, row: GroupPartition) -> Finding:
    where = name_of(*row.key)
    text = (
        f"{picture.source} is unreachable, and the offset of {where} is unknown: "
        f"{ended(row.trouble)} A failover sets no offset there. The group's members start at the "
        f"offset that it has on {picture.target}, or where auto.offset.reset says."
    )
    return Finding(code=NEVER_READ, where=where, sentence=text, page="groups")


def _amount_owed(parts: Sequence[PartitionAccount]) -> str:
    """What the partitions that take part still owe; empty if that is nothing."""
    found = total(part.owed for part in parts if part.role == "replicated")
    if found.records == 0 and not found.unknown:
        return ""
    return owed_text(found)


def _not_taking_part(parts: Sequence[PartitionAccount]) -> set[str]:
    """Return the remote topics of which no partition takes part; their problem is reported once."""
    remote = {part.row.remote_topic for part in parts}
    return remote - {part.row.remote_topic for part in parts if part.role == "replicated"}


def _topics(picture: FailoverSnapshot, parts: Sequence[PartitionAccount]) -> dict[str, str]:
    """Map the name in a finding to the topic that a decision has to leave behind."""
    names: dict[str, str] = {}
    for part in parts:
        topic, remote = part.row.topic, part.row.remote_topic
        names[remote] = names[where_missing(remote, picture.target)] = topic
        names[where_missing(topic, picture.source)] = topic
    return names


def _name_in(row: Finding) -> str:
    """Return the topic of a setting's finding."""
    return row.where.partition(": ")[0]


def _topic_and_permission_blockers(picture: FailoverSnapshot) -> Iterator[Finding]:
    """Yield blockers of topics and rights, which offsets do not show."""
    if picture.target_topics is not None:
        yield from drift_blockers(picture.target_topics, target=picture.target)
    yield from permission_blockers(picture.checked, picture.source_rights, picture.target_rights)


def _group_blockers(
    picture: FailoverSnapshot, group: GroupSnapshot, oldest_ms: int
) -> Iterator[Finding]:
    if group.trouble and picture.source_trouble:
        text = (
            f"{picture.source} is unreachable, and the offsets of {group.group} are unknown: "
            f"{ended(group.trouble)} A failover sets no offset for it. Its members start at the "
            f"offsets that it has on {picture.target}, or where auto.offset.reset says."
        )
        yield Finding(code=NEVER_READ, where=group.group, sentence=text, page="groups")
    elif group.trouble:
        text = (
            f"Cannot read the offsets of {group.group}: {ended(group.trouble)} To switch the "
            "other groups over, simulate without this group."
        )
        yield Finding(code=NO_GROUPS, where=group.group, sentence=text, page="groups")
    if group.taken:
        text = (
            f"{group.group}: {group.taken} on {picture.target}, so its offsets cannot be set. "
            "Delete or rename the share group, or simulate without this group."
        )
        yield Finding(code="name_taken", where=group.group, sentence=text, page="groups")
    elif group.target_state not in IDLE:
        text = (
            f"{group.group} is {group.target_state} on {picture.target}, so its offsets cannot be "
            f"set. Stop its members on {picture.target} first."
        )
        yield Finding(code="group_active", where=group.group, sentence=text, page="groups")
    age = 0 if group.seen_at is None else picture.taken_at - group.seen_at
    if age > oldest_ms:
        text = (
            f"The offsets of {group.group} are {duration(age)} old (limit: {duration(oldest_ms)}) "
            f"and {picture.source} is unreachable: all that the group has consumed since would be "
            "re-read."
        )
        yield Finding(code="sample_too_old", where=group.group, sentence=text, page="groups")


def find_warnings(
    picture: FailoverSnapshot,
    partitions: tuple[PartitionPlan, ...],
    group_partitions: tuple[GroupPartitionPlan, ...],
) -> Iterator[Finding]:
    if picture.source_trouble:
        ages = [row.source_end_age_ms for row in partitions if row.source_end_age_ms is not None]
        old = f" They are up to {duration(max(ages))} old." if ages else " There are none."
        text = f"The figures of {picture.source} are its last known: {picture.source_trouble}{old}"
        yield Finding(code="source_unreachable", where=picture.flow, sentence=text, page="source")
    if picture.deleted_topics:
        yield _deleted_topics(picture)
    yield from _losses(partitions)
    for group_partition in group_partitions:
        where = name_of(*group_partition.key)
        if group_partition.outcome in ("ahead", "expired", "lower_bound"):
            text = f"{where}: {group_partition.reason}.{_skipped(group_partition)}"
            yield Finding(code=group_partition.outcome, where=where, sentence=text, page="groups")
    yield from (row for row in picture.boundary if row.code != "scope_empty")
    yield from _without_offset(picture)
    yield from _left_out(picture)
    yield from _topic_and_permission_warnings(picture)


def _losses(partitions: tuple[PartitionPlan, ...]) -> Iterator[Finding]:
    """Yield one warning for each degree of certainty; the plan's table has each partition."""
    by_certainty: dict[OwedCertainty, list[tuple[int, str]]] = {}
    for row in partitions:
        if row.loss:
            name = f"{row.topic}-{row.partition}"
            by_certainty.setdefault(row.loss_certainty, []).append((row.loss, name))
    for certainty, found in by_certainty.items():
        most, name = max(found, key=lambda one: one[0])
        where = name if len(found) == 1 else f"{len(found)} partitions"
        said = amount(sum(loss for loss, _ in found), certainty)
        worst = "" if len(found) == 1 else f", most in {name} ({amount(most, certainty)})"
        text = f"{where}: {said} would be lost{worst}."
        yield Finding(code="loss", where=where, sentence=text, page="topics")


def _skipped(group_partition: GroupPartitionPlan) -> str:
    if group_partition.skipped == 0:
        return ""
    if group_partition.skipped is None:
        return " Whether the target still has all records that the group has not read is unknown."
    were = "was" if group_partition.skipped == 1 else "were"
    return (
        f" At most {plural(group_partition.skipped, 'record')} that it has not read {were} "
        "deleted on the target: it skips them."
    )


def _without_offset(picture: FailoverSnapshot) -> Iterator[Finding]:
    for group in picture.groups:
        for group_partition in group.group_partitions:
            if group_partition.has_no_offset:
                where = name_of(*group_partition.key)
                text = (
                    f"{where} no longer has a committed offset on {picture.source}: it expired or "
                    "was deleted. No offset is set; its client applies auto.offset.reset, on "
                    f"{picture.target} as on {picture.source}."
                )
                yield Finding(code="no_offset", where=where, sentence=text, page="groups")


def _left_out(picture: FailoverSnapshot) -> Iterator[Finding]:
    for group in picture.groups:
        for group_partition in group.group_partitions:
            if group_partition.left_out:
                where = name_of(*group_partition.key)
                text = f"{where}: no offset is set. {group_partition.left_out.rstrip('.')}."
                yield Finding(code="left_out", where=where, sentence=text, page="groups")


def _deleted_topics(picture: FailoverSnapshot) -> Finding:
    names, more = ", ".join(picture.deleted_topics[:NAMED]), len(picture.deleted_topics) - NAMED
    seen = ""
    if picture.deleted_seen_at is not None:
        seen = (
            f", as the flow last saw it {duration(picture.taken_at - picture.deleted_seen_at)} ago"
        )
    text = (
        f"Deleted on {picture.source} after replication, completely or in part{seen}: {names}"
        f"{f' and {more:,} more' if more > 0 else ''}. Nothing is left there to replicate or to "
        f"lose; the remote topics on {picture.target} are not changed."
    )
    return Finding(code="gone", where=picture.flow, sentence=text, page="topics")


def _topic_and_permission_warnings(picture: FailoverSnapshot) -> Iterator[Finding]:
    source, target = picture.source, picture.target
    if picture.target_topics is not None:
        yield from drift_warnings(picture.target_topics, target=target, now=picture.taken_at)
    if picture.schemas:
        yield Finding(code="schemas", where=target, sentence=picture.schemas, page="schemas")
    yield from permission_warnings(picture.checked, picture.source_rights, picture.target_rights)
    if picture.fence is not None:
        yield from fence_warnings(picture.fence, source=source)
