"""Step read_checkpoints: after the flow stopped, the last plan with the offsets for the groups.

After the fence, a problem of single groups or partitions does not stop the run: the result names
them, and they are excluded. Only unreplicated records stop a switchover here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.failover.runbook.group_progress import (
    LaggingGroup,
    LaggingGroups,
    find_lagging_groups,
)
from mirrors.domain.failover.runbook.plan_drift import remaining_lag
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import AT_LEAST
from mirrors.kafka.admin.groups import list_groups
from mirrors.models import Flow, PartitionMap
from mirrors.services.clock import milliseconds
from mirrors.services.failover.resume_offsets import replicated_end_offsets
from mirrors.services.failover.runbook.context import Context, Handler, done, failed, not_yet
from mirrors.services.failover.runbook.steps.preflight import (
    active_groups,
    plan_now,
    worse_than_simulated,
)
from mirrors.services.offsets.divergence_points import store_points
from mirrors.services.offsets.reverse_translation import origin_partitions, translate_to_origin

DEADLINE_S = 10.0
_FAR = (1 << 63) - 1
_NAMED = 3


def _wait(context: Context) -> Outcome:
    _, plan = plan_now(context)
    said = plan.to_dict()
    known = [row for row in plan.places if row.downstream_offset is not None]
    exact = sum(row.outcome not in AT_LEAST for row in known)
    numbers: dict[str, Any] = {
        "places": len(plan.places),
        "exact": exact,
        "at_least": len(known) - exact,
        "loss": plan.loss,
        "re_reads": plan.re_reads,
        "digest": plan.digest,
        "changed": list(worse_than_simulated(context, said)),
    }
    pending = remaining_lag(said)
    if context.planned and pending:
        words = f"{plural(pending, 'record')} would be lost, so this is no longer a switchover."
        return failed(f"{words} Abort it, and find out which producer still writes.", **numbers)
    context.alive()
    readers = _readers(context, said["places"]) if context.planned else None
    if readers is not None and readers.reading:
        names = ", ".join(readers.reading[:_NAMED])
        more = ", …" if len(readers.reading) > _NAMED else ""
        words = (
            f"{names}{more} still consume on {context.spec.source.alias}: records that they read "
            "from now on are re-read on the target. Let them finish, or stop them there."
        )
        return not_yet(words, again_ms=2_000, reading=list(readers.reading[:20]), **numbers)
    words = f"{exact:,} of {plural(len(plan.places), 'group-partition')} have an exact offset"
    words += f", {len(known) - exact:,} an earlier one." if len(known) > exact else "."
    kept, numbers["divergence_points"] = _keep_points(context)
    named = [kept, _stuck_sentence(context, readers), _changes_sentence(numbers["changed"])]
    return done(" ".join([words, *(part for part in named if part)]), **numbers)


def _keep_points(context: Context) -> tuple[str, int]:
    """Store the divergence points: from now on the target has records of its own.

    Returns a sentence where they cannot be written; a failback then uses the offset runs.
    """
    try:
        topics = None if context.scope is None else {name for name, _ in context.source_partitions}
        points = store_points(
            flow=context.flow, mark=context.run.mark, now=timezone.now(), topics=topics
        )
    except KafkaRefused as error:
        return f"The divergence points could not be written: {error.message}", 0
    return "", len(points)


def _readers(context: Context, places: Iterable[Mapping[str, Any]]) -> LaggingGroups | None:
    """Groups with members on the source that have not consumed everything replicated; None when
    the source does not say."""
    try:
        listed = list_groups(context.spec.source, deadline_s=DEADLINE_S)
    except KafkaUnavailable:
        return None
    busy = set(active_groups(context, listed))
    active = busy.union(context.row.result.get("active_groups") or [])
    places = [row for row in places if row["group"] in busy]
    ends = ends_downstream(context.flow, places)
    behind = [
        LaggingGroup(row["group"], row["topic"], row["partition"], row["source_offset"])
        for row in places
        if row["downstream_offset"] is not None
        and row["downstream_offset"] < ends.get((row["remote_topic"], row["partition"]), 0)
    ]
    before = context.row.result.get("readers") or {}
    found = find_lagging_groups(behind, before, milliseconds(timezone.now()))
    context.keep(active_groups=sorted(active), readers=found.seen)
    return found


def _stuck_sentence(context: Context, readers: LaggingGroups | None) -> str:
    if not context.planned:
        return ""
    if readers is None:
        alias = context.spec.source.alias
        return f"Whether groups still read on {alias} is unknown: it stopped responding."
    if not readers.stuck:
        return ""
    more = len(readers.stuck) - _NAMED
    names = ", ".join(readers.stuck[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return (
        f"The run does not wait for these, whose offsets do not move: {names}. Records that they "
        f"read on {context.spec.source.alias} from now on are re-read on the target."
    )


def _changes_sentence(changed: list[str]) -> str:
    """What is worse than simulated: it stops nothing any more, and the result names it."""
    if not changed:
        return ""
    more = len(changed) - _NAMED
    rest = f" And {more:,} more." if more > 0 else ""
    return f"Since the simulation: {' '.join(changed[:_NAMED])}{rest}"


def ends_downstream(flow: Flow, places: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Target offset after the last replicated record of each remote partition; markers do not
    count. `places`: group-partitions of a plan.

    Remote partitions that came from the target: after the last record that a group here can read.
    """
    remote: dict[str, dict[TopicPartition, TopicPartition]] = {}
    for row in places:
        tp = (row["topic"], row["partition"])
        mine = remote.setdefault(row.get("route", ""), {})
        mine[tp] = (row["remote_topic"], row["partition"])
    rows = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    known = {(row.topic, row.partition): row.position or 0 for row in rows}
    found: dict[TopicPartition, int] = {}
    for route, wanted in remote.items():
        positions = {tp: known[tp] for tp in wanted.keys() & known.keys()}
        ends = replicated_end_offsets(flow, positions, route)
        home = wanted.keys() & origin_partitions(flow).keys() - known.keys()
        for tp, answers in translate_to_origin(flow, {tp: [_FAR] for tp in home}).items():
            if answers and answers[0].downstream is not None:
                ends[tp] = answers[0].downstream
        found |= {wanted[tp]: end for tp, end in ends.items()}
    return found


READ_CHECKPOINTS = Handler(wait=_wait)
