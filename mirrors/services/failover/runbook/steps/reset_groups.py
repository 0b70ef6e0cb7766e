"""Step reset_groups: sets idle groups on the target to the offsets of the last plan, once each.

Each write is stored before and after it, by group-partition. A group-partition is never set twice,
because its group may have consumed since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.findings.permissions import where_missing
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import IDLE, plan_offset_update
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import GroupOffset as Offset
from mirrors.kafka.admin.groups import delete_group, delete_offsets, read_offsets, write_offsets
from mirrors.models import GroupOffset
from mirrors.services.clock import Budget
from mirrors.services.failover.runbook.context import Context, Handler, done, not_yet
from mirrors.services.groups.store import written_offsets
from mirrors.services.groups.survey import read_target

DEADLINE_S = 20.0
# The number of groups whose state is read right before the write, so that little time passes.
_AT_ONCE = 20
# States of a group-partition that is at its offset, and of one that a retry may fix.
SET, AGAIN = ("moved", "in_sync"), ("active", "failed")
Row = dict[str, Any]


def _wait(context: Context) -> Outcome:
    rows = _rows(context)
    todo = [row for row in rows if row["state"] not in SET and row["to"] is not None]
    groups = sorted({row["group"] for row in todo})
    for start in range(0, len(groups), _AT_ONCE):
        context.alive()
        now = set(groups[start : start + _AT_ONCE])
        _set(context, rows, [row for row in todo if row["group"] in now])
        context.keep(rows=rows)
    _remember(context, rows)
    return _told(context, rows)


def _rows(context: Context) -> list[Row]:
    """As stored by an earlier attempt, or one for each group-partition of the plan."""
    if kept := context.row.result.get("rows"):
        return list(kept)
    fields = ("group", "topic", "partition", "remote_topic", "source_offset")
    rows = [
        {
            **{name: row[name] for name in fields},
            "route": row.get("route", ""),
            "to": row["downstream_offset"],
            "end": _end(row),
            "state": "unknown" if row["downstream_offset"] is None else "waiting",
            "reason": row["reason"],
        }
        for row in context.plan["places"]
    ]
    context.keep(rows=rows)
    return rows


def _end(row: Row) -> int | None:
    """The target's end at the time of the plan."""
    if row["downstream_offset"] is None or row["waiting"] is None:
        return None
    return int(row["downstream_offset"] + row["waiting"])


def _set(context: Context, rows: list[Row], mine: Sequence[Row]) -> None:
    """Read, decide, store the undo, write; each row gets its outcome."""
    target = context.spec.target
    states, seen = read_target(target, [_group_partition(row) for row in mine], Budget(DEADLINE_S))
    wrote = written_offsets(flow=context.flow)
    writes: dict[str, dict[tuple[str, int], Row]] = {}
    for row, group_partition in zip(mine, seen, strict=True):
        key = group_partition.key
        state = states.get(group_partition.group, "")
        move = plan_offset_update(group_partition, enabled=True, state=state, wrote=wrote.get(key))
        row["state"], row["reason"] = str(move.state), move.reason
        row.setdefault("before", group_partition.target_offset)
        row.setdefault("made", group_partition.group not in states)
        if move.state == "moved":
            row["state"] = "waiting"
            writes.setdefault(group_partition.group, {})[row["remote_topic"], row["partition"]] = (
                row
            )
    context.keep(rows=rows)
    for group, partitions in writes.items():
        context.alive()
        _write(context, group, partitions)


def _write(context: Context, group: str, writes: dict[tuple[str, int], Row]) -> None:
    target = context.spec.target
    offsets = {tp: Offset(row["to"]) for tp, row in writes.items()}
    try:
        refusals = write_offsets(target, group, offsets, deadline_s=DEADLINE_S).failed
    except UnderstudyError as error:
        refusals = dict.fromkeys(writes, error)
    for tp, row in writes.items():
        refused = refusals.get(tp)
        if refused is None:
            row["state"] = "moved"
        else:
            row["state"] = "active" if refused.code == "group_active" else "failed"
            row["reason"] = refused.message


def _group_partition(row: Row) -> GroupPartition:
    found = Translation(
        upstream=row["source_offset"] or 0,
        downstream=row["to"],
        outcome="exact",
        reason=row["reason"],
    )
    return GroupPartition(
        group=row["group"],
        topic=row["topic"],
        partition=row["partition"],
        remote_topic=row["remote_topic"],
        route=row.get("route", ""),
        source_offset=row["source_offset"],
        translation=found,
        target_end=row["end"],
    )


def _remember(context: Context, rows: Iterable[Row]) -> None:
    """Store in the flow's own rows that the flow committed these offsets."""
    now = timezone.now()
    for row in rows:
        if row["state"] in SET:
            known = GroupOffset.objects.filter(flow=context.flow, group=row["group"])
            known = known.filter(topic=row["topic"], partition=row["partition"])
            known.filter(route=row.get("route", "")).update(
                wrote=row["to"],
                target_offset=row["to"],
                sync_state=row["state"],
                reason=row["reason"],
                as_of=now,
            )


def _told(context: Context, rows: list[Row]) -> Outcome:
    good = [row for row in rows if row["state"] in SET]
    rest = [row for row in rows if row["state"] not in SET]
    numbers = {
        "moved": sum(row["state"] == "moved" for row in rows),
        "in_place": sum(row["state"] == "in_sync" for row in rows),
        "not_moved": len(rest),
    }
    words = f"{len(good):,} of {plural(len(rows), 'group-partition')} are at their offset."
    if rest:
        row = rest[0]
        where = f"{row['group']} in {row['topic']}-{row['partition']}"
        more = f" and {len(rest) - 1:,} more" if len(rest) > 1 else ""
        words += f" Not set: {where}{more}: {row['reason']}."
    known = _agreed_to(context)
    if any(row["state"] in AGAIN and row["group"] not in known for row in rest):
        return not_yet(words, again_ms=2_000, **numbers)
    return done(words, **numbers)


def _agreed_to(context: Context) -> set[str]:
    """Groups that a blocker of the simulation named. The run began anyway, so it leaves them
    unchanged and does not wait for them."""
    simulated = context.run.simulation.plan if context.run.simulation else None
    named = {row["where"] for row in (simulated or {}).get("blockers", [])}
    target = context.spec.target.alias
    groups = {row["group"] for row in context.plan["places"]}
    return {group for group in groups if {group, where_missing(group, target)} & named}


def _undo(context: Context) -> str:
    """Restore the offset of each idle group that is still where the run set it."""
    rows = [
        row
        for row in context.row.result.get("rows", [])
        if row["to"] is not None and "before" in row and row["before"] != row["to"]
    ]
    undone = RestoreResult()
    for group in sorted({row["group"] for row in rows}):
        context.alive()
        undone += _restore_offsets(context, group, [row for row in rows if row["group"] == group])
    return undone.sentence


@dataclasses.dataclass(frozen=True)
class RestoreResult:
    """How many offsets were restored, deleted, and left unchanged."""

    restored: int = 0
    deleted: int = 0
    left: int = 0

    def __add__(self, other: RestoreResult) -> RestoreResult:
        return RestoreResult(
            self.restored + other.restored, self.deleted + other.deleted, self.left + other.left
        )

    @property
    def sentence(self) -> str:
        said = f"{plural(self.restored, 'offset')} restored"
        if self.deleted:
            said += f", {plural(self.deleted, 'offset')} deleted where there was none before"
        if self.left:
            said += f"; {self.left:,} left, because their groups are active or consumed since"
        return f"{said}."


def _restore_offsets(context: Context, group: str, rows: list[Row]) -> RestoreResult:
    target = context.spec.target
    states, seen = read_target(target, [_group_partition(row) for row in rows], Budget(DEADLINE_S))
    if states.get(group, "") not in IDLE:
        return RestoreResult(left=len(rows))
    ours = [
        row
        for row, group_partition in zip(rows, seen, strict=True)
        if group_partition.target_offset == row["to"]
    ]
    offsets = {_where(row): Offset(row["before"]) for row in ours if row["before"] is not None}
    done = write_offsets(target, group, offsets, deadline_s=DEADLINE_S).raise_first().done
    fresh = {_where(row) for row in ours if row["before"] is None}
    deleted = _delete_offsets(target, group, fresh, made=any(row.get("made") for row in ours))
    # An offset that has moved or was deleted was changed by somebody else.
    left = sum(
        group_partition.target_offset not in (None, row["to"], row["before"])
        for row, group_partition in zip(rows, seen, strict=True)
    )
    return RestoreResult(len(done), deleted, left)


def _delete_offsets(
    target: ClusterSpec, group: str, fresh: set[TopicPartition], *, made: bool
) -> int:
    """Delete offsets that did not exist before; also the group where the run created it."""
    if not fresh:
        return 0
    if made:
        found = read_offsets(target, {group: None}, deadline_s=DEADLINE_S).raise_first()
        if found.done[group].raise_first().done.keys() <= fresh:
            delete_group(target, group, deadline_s=DEADLINE_S)
            return len(fresh)
    return len(delete_offsets(target, group, fresh, deadline_s=DEADLINE_S).raise_first().done)


def _where(row: Row) -> TopicPartition:
    return row["remote_topic"], row["partition"]


RESET_GROUPS = Handler(wait=_wait, undo=_undo)
