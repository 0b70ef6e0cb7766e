"""Deletes blocks of the current generation, from topic and index, once neither log needs them.

- The engine never writes such a key again: it continues with the last block, and begins others at
  or after its position. So a tombstone from here is the last record of its key.
- The tombstones are acknowledged before the rows are deleted, as with earlier generations.
- Offsets that either log holds are translated as before, also with a rebuilt index.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from datetime import datetime, timedelta

from django.db.models import Min, QuerySet

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.retention import (
    LogStarts,
    RetentionBoundary,
    blocks_between,
    retention_boundary,
)
from mirrors.domain.replication_policy import policy_for
from mirrors.kafka.admin.topics import Admin
from mirrors.models import (
    Comparison,
    Failback,
    FailoverRun,
    Flow,
    GroupOffset,
    PartitionMap,
    RunBlock,
)
from mirrors.models.flows import DesiredState
from mirrors.services.offsets.retention.old_runs import CLIENT_ID, DEADLINE_S, MOST, delete_blocks
from mirrors.services.offsets.reverse_translation import reverse_flow_of

log = logging.getLogger(__name__)

# Longer than the time between reading and judging a record; shorter than beat's interval.
SETTLED = timedelta(minutes=30)
_BATCH = 400


def flows_with_runs() -> list[int]:
    """Flows whose clusters are to be asked for their log start offsets."""
    current = PartitionMap.objects.filter(position__isnull=False)
    answering = current.exclude(flow__source__reachable=False).exclude(
        flow__target__reachable=False
    )
    return list(answering.order_by("flow").values_list("flow", flat=True).distinct())


def retire_blocks(*, flow: Flow, now: datetime, deadline_s: float = DEADLINE_S) -> int:
    """How many blocks were deleted; the rest waits for the next run. Calls Kafka.

    Raises KafkaUnavailable or KafkaRefused when a cluster does not respond.
    """
    if why := _why_all_stay(flow):
        log.info("All runs of %s stay: %s", flow.name, why)
        return 0
    until = time.monotonic() + deadline_s
    current = PartitionMap.with_routes.filter(flow=flow, position__isnull=False)
    maps = list(current.exclude(into=""))
    starts, groups = _starts(flow, maps, until), _lowest_of_groups(flow)
    deleted, why_not = 0, Counter[str]()
    seen: list[PartitionMap] = []
    for known in maps:
        tp = (known.topic, known.partition)
        if known.starts_at is not None and now - known.starts_at < SETTLED:
            why_not["both clusters were read recently"] += 1
            continue
        found = retention_boundary(
            before=LogStarts(known.source_start, known.target_start),
            now=starts[known.pk],
            groups=groups.get(tp, LogStarts()),
            position=known.position or 0,
        )
        if found is None:
            why_not["a log start did not move, or is unknown"] += 1
        elif deleted < MOST and time.monotonic() < until:
            deleted += delete_blocks(flow, known, due_blocks(known, found), until=until)
        known.source_start, known.target_start = starts[known.pk]
        known.starts_at = now
        seen.append(known)
    PartitionMap.with_routes.bulk_update(
        seen, ["source_start", "target_start", "starts_at"], batch_size=_BATCH
    )
    told = "; ".join(f"{reason} ({count} partitions)" for reason, count in why_not.most_common())
    log.info(
        "Runs of %s before both logs: %s blocks deleted; %s", flow.name, deleted, told or "no doubt"
    )
    return deleted


def due_blocks(known: PartitionMap, at: RetentionBoundary) -> QuerySet[RunBlock]:
    """Both sides rise within a map, so each is one look-up in its index."""
    rows = RunBlock.objects.filter(map=known)
    firsts = rows.values_list("first", flat=True)
    oldest = firsts.order_by("first").first()
    upstream = firsts.filter(first__lte=at.upstream).order_by("-first").first()
    downstream = firsts.filter(downstream__lte=at.downstream).order_by("-downstream").first()
    if oldest is None or upstream is None or downstream is None:
        return rows.none()
    between = blocks_between(oldest=oldest, upstream=upstream, downstream=downstream)
    return rows.filter(first__gte=between.start, first__lt=between.stop)


def _why_all_stay(flow: Flow) -> str:
    """A failback, failover or comparison may translate old offsets; until it ends, all stay."""
    if flow.desired_state == DesiredState.STOPPED and flow.divergences.exists():
        return "its target was promoted"
    if reverse_flow_of(flow) is not None:
        return "it is the reverse flow of a promoted target"
    if FailoverRun.objects.filter(flow=flow, ended_at=None).exists():
        return "a failover or a simulation is running"
    ways_back = (flow.failbacks.all(), Failback.objects.filter(reverse=flow))
    if any(rows.filter(ended_at=None).exists() for rows in ways_back):
        return "a failback is running"
    if Comparison.objects.filter(flow=flow, ended_at=None).exists():
        return "a comparison is running"
    return ""


def _starts(flow: Flow, maps: list[PartitionMap], until: float) -> dict[int, LogStarts]:
    """Current log start offsets of each map on both clusters; None where a cluster does not report
    them."""
    spec = flow.spec
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    remote = {
        known.pk: (known.route or policy.remote_topic(known.topic), known.partition)
        for known in maps
    }
    source = {known.pk: (known.topic, known.partition) for known in maps}
    if not remote:
        return {}
    with Admin(spec.source, client_id=CLIENT_ID) as admin:
        here = admin.list_offsets(set(source.values()), "earliest", deadline_s=_left(until)).done
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        there = admin.list_offsets(remote.values(), "earliest", deadline_s=_left(until)).done
    return {pk: LogStarts(here.get(source[pk]), there.get(name)) for pk, name in remote.items()}


def _lowest_of_groups(flow: Flow) -> dict[TopicPartition, LogStarts]:
    """The lowest group offset on either side, as the sync tasks last saw it."""
    rows = GroupOffset.objects.filter(flow=flow).exclude(topic="").order_by()
    lowest = rows.values_list("topic", "partition").annotate(
        Min("source_offset"), Min("target_offset")
    )
    return {(topic, number): LogStarts(here, there) for topic, number, here, there in lowest}


def _left(until: float) -> float:
    return max(0.5, until - time.monotonic())
