"""Step verify_flow: consumers resume on the target, and nothing is written on the source."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.group_progress import GroupProgress, judge_progress
from mirrors.domain.failover.runbook.late_records import (
    NOT_READ,
    LateRecords,
    late_records,
    late_sentence,
)
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.formatting import plural
from mirrors.kafka.admin.groups import list_reachable_groups, read_offsets
from mirrors.services.clock import milliseconds
from mirrors.services.failover.runbook.context import Context, Handler, done, not_yet
from mirrors.services.failover.runbook.steps.fence import source_ends
from mirrors.services.failover.runbook.steps.loss_count import count_run
from mirrors.services.failover.runbook.steps.loss_recount import store
from mirrors.services.failover.runbook.steps.read_checkpoints import ends_downstream
from mirrors.services.failover.runbook.steps.reset_groups import SET

DEADLINE_S = 10.0
# A run waits no longer for a count; the rest is counted after its end.
COUNT_S = 20.0


def _wait(context: Context) -> Outcome:
    rows = [row for row in context.kept("reset_groups").get("rows", []) if row["state"] in SET]
    now = milliseconds(timezone.now())
    began = context.row.result.get("looked_at") or now
    groups = _progress(context, rows)
    context.alive()
    late = _written_since(context)
    found = judge_progress(groups, waited_ms=now - began)
    numbers = {
        "groups": [{**dataclasses.asdict(one), "works": one.works} for one in groups],
        "not_awaited": [*found.idle, *found.unknown],
        **(NOT_READ if late is None else late.to_dict()),
        "looked_at": began,
        "verified_at": now,
    }
    consumed = plural(sum(one.consumed for one in groups), "record")
    words = (
        f"{len(found.working):,} of {plural(len(groups), 'group')} consume on "
        f"{context.spec.target.alias}; {consumed} consumed there. "
        f"{late_sentence(late, context.spec.source.alias)} {found.sentence}"
    ).strip()
    if found.awaited:
        return not_yet(words, again_ms=2_000, **numbers)
    return done(f"{words} {_count(context)}".strip(), **numbers)


def _count(context: Context) -> str:
    """Count the loss while the source responds; returns why that failed, or an empty string."""
    if not context.source_answers:
        return ""
    try:
        found = count_run(
            run=context.run,
            flow=context.flow,
            now=timezone.now(),
            tick=context.alive,
            deadline_s=COUNT_S,
        )
    except UnderstudyError as error:
        return f"The loss could not be counted: {error.message}"
    store(run=context.run, found=found, who=WORKER)
    return found.to_dict(source=context.spec.source.alias)["sentence"]


def _progress(context: Context, rows: Sequence[dict[str, Any]]) -> list[GroupProgress]:
    """Each group that was set: its state on the target, records consumed and to consume."""
    target = context.spec.target
    wanted: dict[str, list[TopicPartition]] = {}
    for row in rows:
        wanted.setdefault(row["group"], []).append((row["remote_topic"], row["partition"]))
    if not wanted:
        return []
    active = _active_before(context)
    states = list_reachable_groups(target, deadline_s=DEADLINE_S).groups
    offsets = read_offsets(target, wanted, deadline_s=DEADLINE_S).done
    ends = ends_downstream(context.flow, rows)
    consumed: Counter[str] = Counter()
    to_read: Counter[str] = Counter()
    for row in rows:
        group, tp = row["group"], (row["remote_topic"], row["partition"])
        at = offsets[group].done.get(tp) if group in offsets else None
        consumed[group] += 0 if at is None else max(0, at.offset - row["to"])
        end = ends.get(tp, row["to"])
        to_read[group] += max(0, end - row["to"])
    return [
        GroupProgress(
            group=group,
            was_active=None if active is None else group in active,
            state=states[group].state if group in states else "",
            consumed=consumed[group],
            to_read=to_read[group],
        )
        for group in wanted
    ]


def _active_before(context: Context) -> set[str] | None:
    """Groups that had members on the source at any time in this run; None when never read."""
    looks = [context.kept(name).get("active_groups") for name in ("detect", "read_checkpoints")]
    if all(look is None for look in looks):
        return None
    return {group for look in looks for group in look or ()}


def _written_since(context: Context) -> LateRecords | None:
    """Offsets written on the source after the fence; None when it does not respond."""
    fence = context.kept("fence_producers")
    if not context.source_answers or "ends" not in fence:
        return None
    try:
        now, _ = source_ends(context)
    except UnderstudyError:
        return None
    return late_records(fence["ends"], now, unread=fence.get("unread", ()))


VERIFY_FLOW = Handler(wait=_wait)
