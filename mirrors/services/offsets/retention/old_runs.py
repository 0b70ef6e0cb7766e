"""Deletes runs of earlier generations, from topic and index, once no log needs them.

- The tombstones are acknowledged before the rows are deleted: a crash in between repeats it.
- The current generation is never touched, so no translation changes.
- A rebuilt index reads the tombstones after the blocks, or neither.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator

from django.db.models import QuerySet

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.offsets.retention import OldRuns, RemoteLog, retirement
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import Flow, PartitionMap, RunBlock

log = logging.getLogger(__name__)

CLIENT_ID = "understudy-retiring"
DEADLINE_S = 30.0
# Blocks written and deleted together, and blocks per run.
_CHUNK = 500
MOST = 50_000


def flows_with_old_runs() -> list[int]:
    """Flows whose target is to be asked whether runs may be deleted."""
    old = PartitionMap.objects.filter(position__isnull=True).exclude(into="")
    return list(old.order_by("flow").values_list("flow", flat=True).distinct())


def retire_runs(*, flow: Flow, deadline_s: float = DEADLINE_S) -> int:
    """How many blocks were deleted; the rest waits for the next run. Calls Kafka.

    Raises KafkaUnavailable or KafkaRefused when the target does not respond.
    """
    until = time.monotonic() + deadline_s
    maps = list(PartitionMap.objects.filter(flow=flow, position__isnull=True).exclude(into=""))
    if not maps:
        return 0
    with Admin(flow.target.spec, client_id=CLIENT_ID) as admin:
        logs = _Remote(flow, admin, until).logs(maps)
    deleted, why = 0, Counter[str]()
    for old in maps:
        verdict = retirement(_facts(old), logs[old.pk])
        why[verdict.reason] += 1
        if verdict.is_due and deleted < MOST and time.monotonic() < until:
            deleted += _delete_map_blocks(flow, old, until)
    told = "; ".join(f"{reason} ({count} partitions)" for reason, count in why.most_common())
    log.info("Runs of earlier generations of %s: %s blocks deleted; %s", flow.name, deleted, told)
    return deleted


class _Remote:
    """What the target holds of the remote topics of old runs."""

    def __init__(self, flow: Flow, admin: Admin, until: float) -> None:
        spec = flow.spec
        self._policy = policy_for(spec.settings, flow.source.alias, flow.target.alias)
        self._admin = admin
        self._until = until

    @property
    def _left_s(self) -> float:
        return max(0.5, self._until - time.monotonic())

    def logs(self, maps: list[PartitionMap]) -> dict[int, RemoteLog]:
        seen = self._admin.snapshot(now=0, deadline_s=self._left_s, with_configs=False)
        # A topic that a listing omits may be hidden from the principal: described by name, the
        # cluster tells.
        names = {self._policy.remote_topic(old.topic) for old in maps} - seen.topics.keys()
        asked = self._admin.snapshot(names, now=0, deadline_s=self._left_s, with_configs=False)
        hidden = seen.failed.keys() | asked.failed.keys()
        by_id = {state.topic_id: name for name, state in (seen.topics | asked.topics).items()}
        places = {old.pk: (by_id[old.into], old.partition) for old in maps if old.into in by_id}
        wanted = sorted(set(places.values()))
        starts = self._admin.list_offsets(wanted, "earliest", deadline_s=self._left_s).done
        return {
            old.pk: RemoteLog(gone=False, start=starts.get(places[old.pk]))
            if old.pk in places
            else RemoteLog(gone=not hidden)
            for old in maps
        }


def _facts(old: PartitionMap) -> OldRuns:
    last = _last(old)
    current = PartitionMap.objects.filter(
        flow=old.flow_id, topic=old.topic, partition=old.partition, position__isnull=False
    ).first()
    newest = None if current is None else _last(current)
    superseded = newest is not None and (last is None or newest.topic_offset > last.topic_offset)
    if last is None:
        return OldRuns(superseded=superseded, ends=None)
    *_, run = read_block(bytes(last.body))
    return OldRuns(superseded=superseded, ends=run.downstream + run.length)


def _last(known: PartitionMap) -> RunBlock | None:
    return RunBlock.objects.filter(map=known).order_by("-first").first()


def _delete_map_blocks(flow: Flow, old: PartitionMap, until: float) -> int:
    """Deletes the map too, together with its last block."""
    blocks = RunBlock.objects.filter(map=old)
    deleted = delete_blocks(flow, old, blocks, until=until)
    if not blocks.exists():
        PartitionMap.objects.filter(pk=old.pk, position__isnull=True).delete()
    return deleted


def delete_blocks(flow: Flow, of: PartitionMap, blocks: QuerySet[RunBlock], *, until: float) -> int:
    """Delete blocks of one map from topic and index, in chunks; returns how many."""
    deleted = 0
    for chunk in _chunks(blocks):
        keys = [
            BlockKey(of.topic, of.partition, of.generation, first, of.into) for _, first in chunk
        ]
        rows = [NewRecord(key.to_bytes(), None, 0) for key in keys]
        left = max(0.5, until - time.monotonic())
        append(flow.target.spec, runs_topic(flow.source.alias), rows, deadline_s=left)
        RunBlock.objects.filter(pk__in=[pk for pk, _ in chunk]).delete()
        deleted += len(chunk)
        if deleted >= MOST or time.monotonic() > until:
            break
    return deleted


def _chunks(blocks: QuerySet[RunBlock]) -> Iterator[list[tuple[int, int]]]:
    rows = blocks.order_by("first").values_list("pk", "first")
    while chunk := list(rows[:_CHUNK]):
        yield chunk


log = logging.getLogger(__name__)


def claim_retention(retire: Callable[[Flow], int], *, flow_id: int, what: str) -> None:
    """Run one deletion of a flow; an unreachable cluster is tried again by the next sweep."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    if flow is None:
        return
    try:
        retire(flow)
    except UnderstudyError as error:
        log.info("%s of %s stay for now: %s", what, flow.name, error.message)
