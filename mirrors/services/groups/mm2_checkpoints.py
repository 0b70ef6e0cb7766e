"""Sync task `checkpoints`: resume offsets, written as MM2 checkpoints for MM2's clients."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from mirrors.domain.groups.checkpoints import OffsetUpdate, plan_checkpoint, plan_offset_update
from mirrors.domain.groups.reasons import name_of, summarize
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append, ensure_topic
from mirrors.kafka.internal_topics.topic_tail import LogPosition, find_range, read_range
from mirrors.models import Flow, GroupBookmark, KnownCheckpoint
from mirrors.services.clock import Budget, moment
from mirrors.services.groups.store import is_valid_checkpoint, store_offset_updates, written_offsets
from mirrors.services.groups.survey import Survey, flow_of

Key = tuple[str, str, int]
_BATCH = 500
_UNIQUE = ("flow", "group", "topic", "partition")
_NEXT_TURN = "the next run of the group offsets task sets it"


def emit_checkpoints(context: SyncTaskContext, survey: Survey) -> Outcome:
    """Write checkpoints that differ from the last ones, and store each group's offsets."""
    flow, spec, now = flow_of(context), context.spec, moment(context.now)
    budget = Budget(context.deadline_s)
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    topic = policy.checkpoints_topic()
    with Admin(spec.target, client_id="understudy-checkpoints") as admin:
        ensure_topic(
            admin,
            topic,
            replication_factor=spec.settings.checkpoints_topic_replication_factor,
            deadline_s=budget.left_s,
        )
        known = _known(flow, admin, topic, budget)
    plans = [
        plan_checkpoint(
            group_partition,
            known.get(
                (
                    group_partition.group,
                    group_partition.remote_topic or "",
                    group_partition.partition,
                )
            ),
        )
        for group_partition in survey.group_partitions
    ]
    rows = [
        NewRecord(plan.checkpoint.key, plan.checkpoint.value, 0)
        for plan in plans
        if plan.checkpoint
    ]
    if rows:
        append(spec.target, topic, rows, deadline_s=budget.left_s)
    store_survey(flow=flow, spec=spec, survey=survey, now=now)
    return Outcome(
        counts={
            "groups": len(survey.groups),
            "partitions": len(survey.group_partitions),
            "emitted": len(rows),
        },
        reasons=summarize(
            (
                *survey.troubles(),
                *(
                    (plan.reason, name_of(*group_partition.key))
                    for group_partition, plan in zip(survey.group_partitions, plans, strict=True)
                    if plan.checkpoint is None and not plan.is_quiet
                ),
            )
        ),
    )


def store_survey(*, flow: Flow, spec: FlowSpec, survey: Survey, now: datetime) -> None:
    """Store a survey without setting offsets: a group that would change waits for its run."""
    wrote = written_offsets(flow=flow)
    found = [
        (group_partition, _waiting(spec, survey, group_partition, wrote))
        for group_partition in survey.group_partitions
    ]
    store_offset_updates(
        flow=flow, groups=survey.groups, found=found, unreadable=survey.unreadable, now=now
    )


def _waiting(
    spec: FlowSpec,
    survey: Survey,
    group_partition: GroupPartition,
    wrote: dict[tuple[str, str, int, str], int],
) -> OffsetUpdate:
    move = plan_offset_update(
        group_partition,
        enabled=spec.settings.sync_group_offsets_enabled,
        state=survey.states.get(group_partition.group, ""),
        wrote=wrote.get(group_partition.key),
    )
    if move.state != "moved":
        return move
    return OffsetUpdate("waiting", None, f"{move.reason}; {_NEXT_TURN}")


def _known(flow: Flow, admin: Admin, topic: str, budget: Budget) -> dict[Key, Checkpoint]:
    """The last checkpoint of each group and remote partition, by any writer."""
    mark, _ = GroupBookmark.objects.get_or_create(flow=flow)
    before = LogPosition(mark.checkpoints_id, mark.checkpoints_next)
    tail = find_range(admin, topic, before, deadline_s=budget.left_s)
    if tail is not None:
        last: dict[Key, Checkpoint] = {}
        for record in read_range(admin.spec, tail, deadline_s=budget.left_s):
            try:
                row = Checkpoint.read(record.key, record.value)
            except MalformedRecord:
                continue  # a tombstone, or not MM2's; MM2's readers skip it as well
            if is_valid_checkpoint(row):
                last[row.group, row.topic, row.partition] = row
        with transaction.atomic():
            if tail.is_other_log:
                KnownCheckpoint.objects.filter(flow=flow).delete()
            _remember(flow, last.values())
            GroupBookmark.objects.filter(pk=mark.pk).update(
                checkpoints_id=tail.end_position.topic_id, checkpoints_next=tail.end_position.offset
            )
    rows = KnownCheckpoint.objects.filter(flow=flow).order_by()
    return {
        (row.group, row.topic, row.partition): Checkpoint(
            row.group,
            row.topic,
            row.partition,
            row.upstream,
            row.downstream,
            json.loads(row.metadata),
        )
        for row in rows.iterator()
    }


def _remember(flow: Flow, checkpoints: Iterable[Checkpoint]) -> None:
    KnownCheckpoint.objects.bulk_create(
        [
            KnownCheckpoint(
                flow=flow,
                group=row.group,
                topic=row.topic,
                partition=row.partition,
                upstream=row.upstream,
                downstream=row.downstream,
                # Clients write NUL bytes there, which the database rejects.
                metadata=json.dumps(row.metadata),
            )
            for row in checkpoints
        ],
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=_UNIQUE,
        update_fields=("upstream", "downstream", "metadata"),
    )
