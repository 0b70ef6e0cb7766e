"""Findings of a comparison. Each is one sentence with topic, partition and offset."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from mirrors.domain.comparison.alignment import Difference
from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import IDLE
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.topics.sync_plan import Change, SyncPlan

About = Literal["topic", "partition", "config", "acl", "group", "content"]
# differs: the two sides are not the same. note: worth knowing, and no difference that matters.
Weight = Literal["differs", "note"]

_KINDS: dict[str, About] = {
    "create topic": "topic",
    "add partitions": "partition",
    "topic config": "config",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding. `kind` is its short code; `name` is the topic, setting, ACL or group."""

    about: About
    kind: str
    name: str
    sentence: str
    weight: Weight = "differs"
    partition: int | None = None
    source_offset: int | None = None
    target_offset: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aspect:
    """One line of the summary: numbers compared and different, and why others were left out."""

    about: About
    compared: int
    differs: int
    left_out: str = ""


def shape_findings(plan: SyncPlan) -> list[Finding]:
    """Return what differs in topics, settings and ACLs."""
    return [_of_change(change) for change in plan.changes()]


def _of_change(change: Change) -> Finding:
    about = _KINDS.get(change.kind, "acl")
    before = "nothing" if change.before is None else change.before
    after = "the target's default" if change.after is None else change.after
    return Finding(
        about=about,
        kind="missing" if change.before is None and about != "config" else "differs",
        name=change.name,
        sentence=f"The target has {before}, expected is {after}. {change.reason}",
    )


def extra_partition_finding(
    topic: str, remote: str, partition: int, *, held: tuple[int, int] | None, was_copied: bool
) -> Finding:
    """Return the finding for a partition that only the remote topic has.

    - `held`: its first offset and its end; None if the target does not report them.
    - `was_copied`: an earlier generation of the source topic had the partition, and the flow copied
      it.
    """
    where = f"{remote}-{partition} exists only on the target"
    if held is None:
        words = "and the target does not report its offsets"
    elif held[0] >= held[1]:
        words = "and it is empty"
    else:
        words = f"and it holds at most {held[1] - held[0]:,} records, offsets {held[0]} to "
        words += f"{held[1] - 1}"
    if was_copied:
        words += "; this flow copied them when the source topic had more partitions"
    is_foreign = (held is None or held[0] < held[1]) and not was_copied
    return Finding(
        about="partition",
        kind="extra",
        name=topic,
        weight="differs" if is_foreign else "note",
        partition=partition,
        target_offset=None if held is None else held[0],
        sentence=f"{where}, {words}.",
    )


def group_findings(
    group_partitions: Iterable[GroupPartition],
    states: dict[str, str],
    *,
    synced: bool,
    unreadable: Collection[str] = (),
) -> tuple[list[Finding], Aspect]:
    """Compare each group's offset on the target with the offset by the exact map.

    `unreadable`: groups whose offsets on the source were never read.
    """
    found: list[Finding] = []
    left_out: Counter[str] = Counter()
    compared = 0
    for group_partition in group_partitions:
        if group_partition.left_out or group_partition.has_no_offset:
            continue
        exact = _exact(group_partition)
        if why := _why_not_compared(group_partition, exact, states):
            left_out[why] += 1
            continue
        compared += 1
        if (finding := _of_group(group_partition, exact or 0, synced=synced)) is not None:
            found.append(finding)
    words = []
    if not synced:
        words.append("sync.group.offsets.enabled is false, so no group is expected on the target")
    words += [f"{plural(left_out[why], 'group-partition')} {why}" for why in sorted(left_out)]
    if unreadable:
        words.append(f"{plural(len(unreadable), 'group')} whose offsets could not be read")
    differs = sum(row.weight == "differs" for row in found)
    left = f"{'; '.join(words)}." if words else ""
    return found, Aspect(about="group", compared=compared, differs=differs, left_out=left)


def _exact(group_partition: GroupPartition) -> int | None:
    """The group's offset on the target by the exact map; None if it is unknown."""
    told = group_partition.translation
    return None if told is None or told.outcome == "lower_bound" else told.downstream


def _why_not_compared(
    group_partition: GroupPartition, exact: int | None, states: Mapping[str, str]
) -> str:
    if group_partition.source_offset is None:
        return "whose offset on the source could not be read"
    if states.get(group_partition.group, "") not in IDLE:
        return "of groups with members on the target"
    if exact is None or group_partition.target_trouble or group_partition.trouble:
        return "without an exact translation"
    return ""


def with_later_translations(
    group_partitions: Iterable[GroupPartition], again: Iterable[GroupPartition]
) -> list[GroupPartition]:
    """Combine target offsets of a first read with translations of a second one.

    A group that reads advances between the two requests, and its translation only rises with it. So
    an offset ahead of the later translation is really ahead.
    """
    newer = {(row.group, row.topic, row.partition): row.translation for row in again}
    return [
        dataclasses.replace(
            row,
            translation=newer.get((row.group, row.topic, row.partition)) or row.translation,
        )
        for row in group_partitions
    ]


def _of_group(group_partition: GroupPartition, exact: int, *, synced: bool) -> Finding | None:
    at = group_partition.target_offset
    if at == exact or (at is None and not synced):
        return None
    if at is None:
        kind, words = "missing", f"has no offset on the target; its exact offset there is {exact}"
    elif at > exact:
        kind = "ahead"
        words = f"has offset {at} on the target, {at - exact} ahead: it would skip records"
    else:
        kind = "behind"
        words = f"has offset {at} on the target, {exact - at} behind: it would re-read records"
    where = f"{group_partition.topic}-{group_partition.partition}"
    return Finding(
        about="group",
        kind=kind,
        name=group_partition.group,
        # Between two turns of the duty a group that reads is always a little behind.
        weight="differs" if kind == "ahead" else "note",
        partition=group_partition.partition,
        source_offset=group_partition.source_offset,
        target_offset=at,
        sentence=f"In {where}, the group {words}.",
    )


def content_finding(
    topic: str, remote: str, partition: int, row: Difference, *, keyed: str = ""
) -> Finding:
    """Return the finding for one difference. `keyed` says why compaction does not explain it."""
    here = None if row.source is None else row.source.offset
    there = None if row.target is None else row.target.offset
    above, below = f"{topic}-{partition} offset {here}", f"{remote}-{partition} offset {there}"
    words = {
        "changed": f"{above} is a different record on the target ({below}): {_fields(row)}",
        "missing": f"{above} is missing on the target",
        "extra": f"{below} exists only on the target",
        "doubled": f"{below} is a duplicate of the record at source offset {row.twin}",
        "swapped": f"{above} is swapped on the target ({below})"
        + ("" if row.twin is None else f" with the record at source offset {row.twin}"),
        "apart": (
            f"from {above} and {below} on, no records match, so no single difference is listed"
        ),
    }[row.kind]
    return Finding(
        about="content",
        kind=row.kind,
        name=topic,
        partition=partition,
        source_offset=here if row.kind != "doubled" else row.twin,
        target_offset=there,
        sentence=f"{words}{keyed}.",
    )


def _fields(row: Difference) -> str:
    fields = row.fields
    if not fields:
        return "its content differs"
    return f"its {' and '.join(fields)} differ{'s' if len(fields) == 1 else ''}"
