"""Sync task `group offsets`: sets idle groups on the target to their translated offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.groups.checkpoints import OffsetUpdate, plan_offset_update
from mirrors.domain.groups.reasons import name_of, summarize
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.services.clock import Budget, moment
from mirrors.services.groups.store import store_offset_updates, written_offsets
from mirrors.services.groups.survey import Survey, flow_of, read_target

Key = tuple[str, str, int, str]
# The number of groups whose state is read right before they are set, so that little time passes.
_AT_ONCE = 20
_LEAST_S = 3.0
_LATE = OffsetUpdate(
    "waiting", None, "the task ended before this group; its next run sets the offset"
)


def move_groups(context: SyncTaskContext, survey: Survey) -> Outcome:
    """Set the offsets of groups that may be changed; the rows of the others say why not.

    The survey may be some seconds old: states on the target are read again before a group is set.
    """
    flow, spec = flow_of(context), context.spec
    now, budget = moment(context.now), Budget(context.deadline_s)
    wrote = written_offsets(flow=flow)
    found = list(_moved(spec.target, survey, wrote, budget))
    store_offset_updates(
        flow=flow, groups=survey.groups, found=found, unreadable=survey.unreadable, now=now
    )
    states = [move.state for _, move in found]
    return Outcome(
        counts={
            "groups": len(survey.groups),
            "partitions": len(found),
            "moved": states.count("moved"),
            "in_sync": states.count("in_sync"),
        },
        reasons=summarize(
            (
                *survey.troubles(),
                *(
                    (move.reason, name_of(*group_partition.key))
                    for group_partition, move in found
                    if move.state not in ("moved", "in_sync")
                ),
            )
        ),
    )


def _moved(
    target: ClusterSpec, survey: Survey, wrote: dict[Key, int], budget: Budget
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    movers: dict[str, list[GroupPartition]] = {}
    for group_partition in survey.group_partitions:
        move = _plan(group_partition, survey.states, wrote)
        if move.state == "moved":
            movers.setdefault(group_partition.group, []).append(group_partition)
        else:
            yield group_partition, move
    names = list(movers)
    for start in range(0, len(names), _AT_ONCE):
        group_partitions = [
            group_partition
            for name in names[start : start + _AT_ONCE]
            for group_partition in movers[name]
        ]
        if budget.left_s < _LEAST_S:
            yield from ((group_partition, _LATE) for group_partition in group_partitions)
            continue
        states, fresh = read_target(target, group_partitions, budget)
        yield from _act(target, states, fresh, wrote, budget)


def _act(
    target: ClusterSpec,
    states: dict[str, str],
    group_partitions: Iterable[GroupPartition],
    wrote: dict[Key, int],
    budget: Budget,
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    movers: dict[str, list[tuple[GroupPartition, OffsetUpdate]]] = {}
    for group_partition in group_partitions:
        move = _plan(group_partition, states, wrote)
        if move.state == "moved":
            movers.setdefault(group_partition.group, []).append((group_partition, move))
        else:
            yield group_partition, move
    for group, moves in movers.items():
        yield from _write(target, group, moves, budget)


def _write(
    target: ClusterSpec,
    group: str,
    moves: list[tuple[GroupPartition, OffsetUpdate]],
    budget: Budget,
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    wanted = {
        (group_partition.remote_topic or "", group_partition.partition): GroupOffset(
            move.to or 0, group_partition.metadata
        )
        for group_partition, move in moves
    }
    try:
        answer = write_offsets(target, group, wanted, deadline_s=budget.left_s)
    except UnderstudyError as error:
        yield from ((group_partition, _refused(error)) for group_partition, _ in moves)
        return
    for group_partition, move in moves:
        refusal = answer.failed.get((group_partition.remote_topic or "", group_partition.partition))
        if refusal is not None:
            yield group_partition, _refused(refusal)
        else:
            yield dataclasses.replace(group_partition, target_offset=move.to), move


def _refused(error: UnderstudyError) -> OffsetUpdate:
    return OffsetUpdate("active" if error.code == "group_active" else "failed", None, error.message)


def _plan(
    group_partition: GroupPartition, states: dict[str, str], wrote: dict[Key, int]
) -> OffsetUpdate:
    return plan_offset_update(
        group_partition,
        enabled=True,
        state=states.get(group_partition.group, ""),
        wrote=wrote.get(group_partition.key),
    )
