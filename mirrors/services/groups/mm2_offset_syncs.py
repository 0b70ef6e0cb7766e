"""Sync task `offset syncs`: MM2's offset pairs, for clients that still read them.

They are derived from the index of runs. Progress is stored by map, so that a recreated partition
starts again, and by topic id, so that a recreated offset-syncs topic gets all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.db.models import F, Q

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.internal_topics.records import OffsetSync
from mirrors.domain.offsets.mm2_syncs import SyncedUpTo, syncs_of
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import Run
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append, ensure_topic
from mirrors.models import (
    Flow,
    FlowPartition,
    GroupBookmark,
    PartitionMap,
    RunBlock,
    SyncedPartition,
)
from mirrors.models.offsets import neighbor_blocks
from mirrors.services.clock import Budget
from mirrors.services.groups.survey import flow_of
from mirrors.services.offsets.run_index import refresh_index

_BATCH = 500
# Of a long history the newest part suffices: MM2's readers keep 64 pairs, dense near the end.
_MOST_BLOCKS = 64
_HINT = (
    "If the source may only be read, set offset-syncs.topic.location=target, or "
    "emit.offset-syncs.enabled=false."
)


def write_offset_syncs(context: SyncTaskContext) -> Outcome:
    """Write the syncs of everything replicated since the last run."""
    flow, spec, budget = flow_of(context), context.spec, Budget(context.deadline_s)
    if _may_have_moved(flow):
        refresh_index(flow=flow, deadline_s=budget.left_s)
    cluster, topic = _where(spec)
    try:
        moved, written = _write(flow, spec, cluster, topic, budget)
    except KafkaRefused as error:
        if cluster.alias != spec.source.alias:
            raise
        raise KafkaRefused(f"{error.message} {_HINT}", code=error.code) from None
    return Outcome(counts={"partitions": moved, "syncs": written})


def _may_have_moved(flow: Flow) -> bool:
    """From the runner's positions: an idle flow costs no request to Kafka."""
    said = FlowPartition.objects.filter(flow=flow, position__isnull=False).order_by()
    positions = list(said.values_list("topic", "partition", "position"))
    maps = PartitionMap.objects.filter(flow=flow, position__isnull=False).order_by()
    known = {
        (topic, partition): position or 0
        for topic, partition, position in maps.values_list("topic", "partition", "position")
    }
    return not positions or any(
        (position or 0) > known.get((topic, partition), -1)
        for topic, partition, position in positions
    )


def _where(spec: FlowSpec) -> tuple[ClusterSpec, str]:
    """The topic is named after the other cluster than the one that stores it."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    if spec.settings.offset_syncs_topic_location == "source":
        return spec.source, policy.offset_syncs_topic(spec.target.alias)
    return spec.target, policy.offset_syncs_topic(spec.source.alias)


def _write(
    flow: Flow, spec: FlowSpec, cluster: ClusterSpec, topic: str, budget: Budget
) -> tuple[int, int]:
    mark, _ = GroupBookmark.objects.get_or_create(flow=flow)
    lag = spec.settings.offset_lag_max
    found = list(_new_syncs(flow, lag))
    if not found and mark.syncs_id.startswith(f"{cluster.alias}:"):
        return 0, 0
    with Admin(cluster, client_id="understudy-offset-syncs") as admin:
        topic_id = ensure_topic(
            admin,
            topic,
            replication_factor=spec.settings.offset_syncs_topic_replication_factor,
            deadline_s=budget.left_s,
        )
    if _forget_another(mark, f"{cluster.alias}:{topic_id}"):
        found = list(_new_syncs(flow, lag))
    rows = [NewRecord(sync.key, sync.value, 0) for _, syncs in found for sync in syncs]
    if rows:
        append(cluster, topic, rows, deadline_s=budget.left_s)
        SyncedPartition.objects.bulk_create(
            [done for done, _ in found],
            batch_size=_BATCH,
            update_conflicts=True,
            unique_fields=("map",),
            update_fields=("upstream", "downstream", "synced"),
        )
    return len(found), len(rows)


def _forget_another(mark: GroupBookmark, topic_id: str) -> bool:
    """Whether this is another topic than the one that was written so far."""
    if mark.syncs_id == topic_id:
        return False
    with transaction.atomic():
        SyncedPartition.objects.filter(map__flow=mark.flow_id).delete()
        GroupBookmark.objects.filter(pk=mark.pk).update(syncs_id=topic_id)
    return True


def _new_syncs(flow: Flow, lag: int) -> Iterator[tuple[SyncedPartition, list[OffsetSync]]]:
    """For each partition that moved: its new progress, and the syncs to write."""
    moved = PartitionMap.objects.filter(flow=flow, position__gt=0).filter(
        Q(synced=None) | Q(position__gt=F("synced__upstream") + 1)
    )
    for row in moved.select_related("synced").order_by("topic", "partition"):
        known = getattr(row, "synced", None)
        last = SyncedUpTo()
        if known is not None:
            last = SyncedUpTo(known.upstream, known.downstream, known.synced)
        runs = _runs(row.pk, last.upstream + 1)
        syncs, last = syncs_of(last, runs, offset_lag_max=lag, position=row.position or 0)
        if syncs:
            yield (
                SyncedPartition(map=row, **last._asdict()),
                [OffsetSync(row.topic, row.partition, *sync) for sync in syncs],
            )


def _runs(map_id: int, upstream: int) -> Iterator[Run]:
    """Runs from the block that contains the offset."""
    first = neighbor_blocks([(map_id, upstream)])[map_id, upstream].first
    blocks = RunBlock.objects.filter(map=map_id)
    if first is not None:
        blocks = blocks.filter(first__gte=first)
    for block in reversed(blocks.order_by("-first")[:_MOST_BLOCKS]):
        yield from read_block(bytes(block.body))
