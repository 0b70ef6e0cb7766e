"""Failback of consumer groups: each group of the standby gets its resume offset on the old primary.

Offsets of topics that the reverse flow replicates go through its map and the original flow's map.
A remote topic whose name keeps the reverse flow from replicating it goes through the latter only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.filters.groups import GroupSelection
from mirrors.domain.groups.checkpoints import IDLE, OffsetUpdate, plan_offset_update
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Divergence, Failback, Flow, OrphanStretch, PartitionMap
from mirrors.models.failback import OrphanState
from mirrors.services.clock import Budget
from mirrors.services.errors import Conflict
from mirrors.services.groups.survey import read_target
from mirrors.services.offsets.reverse_translation import blocked_home, upstream_of
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets

DEADLINE_S = 60.0
CLIENT_ID = "understudy-failback"


def fail_back_groups(*, run_id: int, act: bool) -> list[dict[str, Any]]:
    """In a worker: the resume offset of each group; with `act`, idle groups are set to it."""
    runs = Failback.objects.select_related(
        "flow__source", "flow__target", "reverse__source", "reverse__target"
    )
    run = runs.get(pk=run_id)
    if run.reverse is None:
        raise Conflict("There is no reverse flow yet, so no group can fail back.")
    rows = _GroupFailback(run.flow, run.reverse, blocked_home(run.reverse)).go(act=act)
    Failback.objects.filter(pk=run.pk).update(groups=rows, groups_at=timezone.now())
    return rows


class _GroupFailback:
    def __init__(self, there: Flow, back: Flow, blocked: Mapping[TopicPartition, str]) -> None:
        self._there, self._back, self._blocked = there, back, blocked
        self._spec: FlowSpec = back.spec
        self._budget = Budget(DEADLINE_S)
        settings = self._spec.settings
        self._policy: ReplicationPolicy = policy_for(
            settings, self._spec.source.alias, self._spec.target.alias
        )
        self._selection = GroupSelection(settings)

    def go(self, *, act: bool) -> list[dict[str, Any]]:
        # Groups first: what they have read by then is in the maps that are read afterwards.
        states, stands = self._on_standby()
        refresh_index(flow=self._there, deadline_s=self._budget.left_s)
        refresh_index(flow=self._back, deadline_s=self._budget.left_s)
        group_partitions = self._translated(stands)
        group_partitions = self._with_ends(group_partitions)
        here, group_partitions = read_target(self._spec.target, group_partitions, self._budget)
        moves = [
            (group_partition, _plan(group_partition, states, here))
            for group_partition in group_partitions
        ]
        if act:
            moves = self._write(moves)
        return [_shown(group_partition, move) for group_partition, move in moves]

    def _on_standby(self) -> tuple[dict[str, str], dict[tuple[str, TopicPartition], GroupOffset]]:
        listed = list_groups(self._spec.source, deadline_s=self._budget.left_s)
        names = [
            name
            for name, row in listed.items()
            if self._selection.decide(name, kind=row.type, protocol=row.protocol_type).chosen
        ]
        found = read_offsets(
            self._spec.source, dict.fromkeys(names), deadline_s=self._budget.left_s
        )
        stands = {
            (name, tp): offset
            for name, answer in found.done.items()
            for tp, offset in answer.done.items()
        }
        return {name: listed[name].state for name in names}, stands

    def _translated(
        self, stands: Mapping[tuple[str, TopicPartition], GroupOffset]
    ) -> list[GroupPartition]:
        home = {
            (row.remote_topic, row.partition): row.topic
            for row in Divergence.objects.filter(flow=self._there)
        }
        brought = {
            (row.topic, row.partition): self._policy.remote_topic(row.topic)
            for row in PartitionMap.objects.filter(flow=self._back, position__isnull=False)
        }
        asked: dict[TopicPartition, set[int]] = {}
        for (_, tp), offset in stands.items():
            asked.setdefault(tp, set()).add(offset.offset)
        by_back = {tp: rows for tp, rows in asked.items() if tp in brought}
        by_there = {p: rows for p, rows in asked.items() if p in home and p not in brought}
        answers = translate_offsets(flow=self._back, partitions=by_back)
        answers |= upstream_of(there=self._there, partitions=by_there)
        known = {(tp, row.upstream): row for tp, rows in answers.items() for row in rows}
        names = {**home, **brought}
        group_partitions = [
            _group_partition(group, tp, offset, names[tp], known.get((tp, offset.offset)))
            for (group, tp), offset in sorted(stands.items())
            if tp in names
        ]
        return [_left_out(row, self._blocked) for row in group_partitions]

    def _with_ends(self, group_partitions: Iterable[GroupPartition]) -> list[GroupPartition]:
        group_partitions = list(group_partitions)
        with Admin(self._spec.target, client_id=CLIENT_ID) as admin:
            there = set(admin.topic_names(deadline_s=self._budget.left_s))
            wanted = {
                (group_partition.remote_topic, group_partition.partition)
                for group_partition in group_partitions
                if group_partition.remote_topic in there
            }
            ends = admin.list_offsets(
                [(topic or "", number) for topic, number in wanted],
                "latest",
                deadline_s=self._budget.left_s,
            ).done
        return [
            dataclasses.replace(
                group_partition,
                target_end=ends.get(
                    (group_partition.remote_topic or "", group_partition.partition)
                ),
            )
            for group_partition in group_partitions
        ]

    def _write(
        self, moves: list[tuple[GroupPartition, OffsetUpdate]]
    ) -> list[tuple[GroupPartition, OffsetUpdate]]:
        movers: dict[str, list[tuple[GroupPartition, OffsetUpdate]]] = {}
        for group_partition, move in moves:
            if move.state == "moved":
                movers.setdefault(group_partition.group, []).append((group_partition, move))
        failed: dict[tuple[str, TopicPartition], str] = {}
        for group, rows in movers.items():
            failed |= _move(self._spec.target, group, rows, self._budget)
        return [
            (group_partition, OffsetUpdate("failed", None, failed[key]))
            if (
                key := (
                    group_partition.group,
                    (group_partition.remote_topic or "", group_partition.partition),
                )
            )
            in failed
            else (group_partition, move)
            for group_partition, move in moves
        ]


def _group_partition(
    group: str, tp: TopicPartition, offset: GroupOffset, topic: str, answer: Translation | None
) -> GroupPartition:
    return GroupPartition(
        group=group,
        topic=tp[0],
        partition=tp[1],
        remote_topic=topic,
        source_offset=offset.offset,
        metadata=offset.metadata,
        translation=answer,
    )


def _left_out(
    group_partition: GroupPartition, blocked: Mapping[TopicPartition, str]
) -> GroupPartition:
    """The topic of this name on the old primary is not the one that the group read."""
    reason = blocked.get((group_partition.topic, group_partition.partition))
    return (
        group_partition if reason is None else dataclasses.replace(group_partition, left_out=reason)
    )


def _plan(
    group_partition: GroupPartition, standby: Mapping[str, str], here: Mapping[str, str]
) -> OffsetUpdate:
    state = standby.get(group_partition.group, "")
    if state not in IDLE:
        reason = f"the group is {state} on the standby: stop its consumers there first"
        return OffsetUpdate("waiting", None, reason)
    return plan_offset_update(
        group_partition, enabled=True, state=here.get(group_partition.group, ""), wrote=None
    )


def _move(
    target: ClusterSpec, group: str, rows: list[tuple[GroupPartition, OffsetUpdate]], budget: Budget
) -> dict[tuple[str, TopicPartition], str]:
    wanted = {
        (row.remote_topic or "", row.partition): GroupOffset(move.to or 0, row.metadata)
        for row, move in rows
    }
    try:
        answer = write_offsets(target, group, wanted, deadline_s=budget.left_s)
    except UnderstudyError as error:
        return {(group, tp): error.message for tp in wanted}
    return {(group, tp): error.message for tp, error in answer.failed.items()}


def _shown(group_partition: GroupPartition, move: OffsetUpdate) -> dict[str, Any]:
    answer = group_partition.translation
    return {
        "group": group_partition.group,
        "topic": group_partition.topic,
        "partition": group_partition.partition,
        "to_topic": group_partition.remote_topic,
        "offset": group_partition.source_offset,
        "to_offset": answer.downstream if answer is not None else None,
        "outcome": answer.outcome if answer is not None else "unknown",
        "stood_at": group_partition.target_offset,
        "state": move.state,
        "reason": move.reason or (answer.reason if answer is not None else ""),
    }


# After this time the message or its worker is lost: fencing the transactional id takes 20 s.
ASK_AGAIN_AFTER = timedelta(seconds=60)


def run_group_failback(*, run_id: int, act: bool) -> None:
    """Compute resume offsets, with `act` set them; the run's row gets a refusal."""
    try:
        fail_back_groups(run_id=run_id, act=act)
    except UnderstudyError as error:
        row = {"group": "", "topic": "", "partition": None, "state": "failed"}
        row |= {"reason": error.message}
        Failback.objects.filter(pk=run_id).update(groups=[row], groups_at=timezone.now())


def waiting_orphans() -> list[int]:
    """Failbacks with decisions that no worker has carried out, or whose flow is still stopped for
    them."""
    old = timezone.now() - ASK_AGAIN_AFTER
    stopped = Failback.objects.filter(seen_at__lt=old).exclude(flow_was="")
    rows = OrphanStretch.objects.filter(
        state=OrphanState.DECIDED, since__lt=old, failback__seen_at__lt=old
    )
    found = {*rows.values_list("failback", flat=True), *stopped.values_list("pk", flat=True)}
    return sorted(found)
