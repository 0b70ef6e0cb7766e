"""Sync task `group offsets`: sets idle groups on the target to their translated offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.groups.checkpoints import OffsetUpdate, plan_offset_update
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.services.clock import Budget, moment
from mirrors.services.groups.store import store_places, written_offsets
from mirrors.services.groups.survey import Survey, flow_of, read_target, summarize

Key = tuple[str, str, int]
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
    store_places(flow=flow, groups=survey.groups, found=found, now=now)
    states = [move.state for _, move in found]
    return Outcome(
        counts={
            "groups": len(survey.groups),
            "partitions": len(found),
            "moved": states.count("moved"),
            "in_sync": states.count("in_sync"),
        },
        reasons=summarize(
            (move.reason, f"{place.group} in {place.topic}-{place.partition}")
            for place, move in found
            if move.state not in ("moved", "in_sync")
        ),
    )


def _moved(
    target: ClusterSpec, survey: Survey, wrote: dict[Key, int], budget: Budget
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    movers: dict[str, list[GroupPartition]] = {}
    for place in survey.places:
        move = _plan(place, survey.states, wrote)
        if move.state == "moved":
            movers.setdefault(place.group, []).append(place)
        else:
            yield place, move
    names = list(movers)
    for start in range(0, len(names), _AT_ONCE):
        places = [place for name in names[start : start + _AT_ONCE] for place in movers[name]]
        if budget.left_s < _LEAST_S:
            yield from ((place, _LATE) for place in places)
            continue
        states, fresh = read_target(target, places, budget)
        yield from _act(target, states, fresh, wrote, budget)


def _act(
    target: ClusterSpec,
    states: dict[str, str],
    places: Iterable[GroupPartition],
    wrote: dict[Key, int],
    budget: Budget,
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    movers: dict[str, list[tuple[GroupPartition, OffsetUpdate]]] = {}
    for place in places:
        move = _plan(place, states, wrote)
        if move.state == "moved":
            movers.setdefault(place.group, []).append((place, move))
        else:
            yield place, move
    for group, moves in movers.items():
        yield from _write(target, group, moves, budget)


def _write(
    target: ClusterSpec,
    group: str,
    moves: list[tuple[GroupPartition, OffsetUpdate]],
    budget: Budget,
) -> Iterator[tuple[GroupPartition, OffsetUpdate]]:
    wanted = {
        (place.remote_topic or "", place.partition): GroupOffset(move.to or 0, place.metadata)
        for place, move in moves
    }
    try:
        answer = write_offsets(target, group, wanted, deadline_s=budget.left_s)
    except UnderstudyError as error:
        yield from ((place, _refused(error)) for place, _ in moves)
        return
    for place, move in moves:
        refusal = answer.failed.get((place.remote_topic or "", place.partition))
        if refusal is not None:
            yield place, _refused(refusal)
        else:
            yield dataclasses.replace(place, target_offset=move.to), move


def _refused(error: UnderstudyError) -> OffsetUpdate:
    return OffsetUpdate("active" if error.code == "group_active" else "failed", None, error.message)


def _plan(place: GroupPartition, states: dict[str, str], wrote: dict[Key, int]) -> OffsetUpdate:
    return plan_offset_update(
        place,
        enabled=True,
        state=states.get(place.group, ""),
        wrote=wrote.get((place.group, place.topic, place.partition)),
    )
