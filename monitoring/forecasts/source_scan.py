"""Sweeps of source clusters: the offsets of every partition that a flow copies.

- One sweep per cluster at a time (`claimed_until`).
- A failed sweep writes no offsets; its row has the reason and since when the figures are stale.
- Failures retry with backoff. The interval grows with the duration of a sweep (`SHARE`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import connection
from django.db.models import Q, QuerySet

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, Flow, FlowPartition
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.flows import unreported_lag
from monitoring.domain.epoch_time import milliseconds, moment
from monitoring.domain.forecasts.flow_outlook import Range, observe
from monitoring.forecasts import flow_outlook
from monitoring.models import ClusterSweep, PartitionRange


@dataclasses.dataclass
class OffsetAnswers:
    """Offsets by partition; `refused` is the first error of a partition without an answer."""

    earliest: dict[TopicPartition, int] = dataclasses.field(default_factory=dict)
    end: dict[TopicPartition, int] = dataclasses.field(default_factory=dict)
    stable: dict[TopicPartition, int] = dataclasses.field(default_factory=dict)
    refused: str = ""

    def is_complete(self, tp: TopicPartition) -> bool:
        return tp in self.earliest and tp in self.end and tp in self.stable


class SourceConnections:
    """Open admin connections of this process; an edited cluster gets a new one."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[datetime, Admin]] = {}

    def topics(self, cluster: Cluster, *, deadline_s: float) -> ClusterSnapshot:
        """All topics with ids and partition counts. Raises if the cluster does not respond."""
        now = round(time.time() * 1000)
        return self._admin(cluster).snapshot(now=now, deadline_s=deadline_s, with_configs=False)

    def list_offsets(
        self, cluster: Cluster, partitions: Sequence[TopicPartition], *, deadline_s: float
    ) -> OffsetAnswers:
        """Earliest, latest and stable offsets. Raises if no partition is answered."""
        deadline = time.monotonic() + deadline_s
        answers = OffsetAnswers()
        admin = self._admin(cluster)
        # The earliest offset last: retention in between must not make an end look lost.
        for at, kept in (
            ("stable", answers.stable),
            ("latest", answers.end),
            ("earliest", answers.earliest),
        ):
            left = max(0.1, deadline - time.monotonic())
            part = admin.list_offsets(partitions, at, deadline_s=left)  # type: ignore[arg-type]
            if part.failed and not part.done:
                self._raise_unless_answered(cluster, next(iter(part.failed.values())))
            kept |= part.done
            for error in part.failed.values():
                answers.refused = answers.refused or error.message
        return answers

    def topic_ids(
        self, cluster: Cluster, topics: Iterable[str], *, deadline_s: float
    ) -> dict[str, str]:
        """The ids of those topics that the cluster has; "" where DESCRIBE is denied.

        Raises when the cluster does not respond.
        """
        now = round(time.time() * 1000)
        seen = self._admin(cluster).snapshot(
            topics, now=now, deadline_s=deadline_s, with_configs=False
        )
        ids = {name: topic.topic_id for name, topic in seen.topics.items()}
        return ids | dict.fromkeys(seen.failed, "")

    def close(self, cluster_id: int) -> None:
        if (known := self._open.pop(cluster_id, None)) is not None:
            known[1].close()

    def _raise_unless_answered(self, cluster: Cluster, error: UnderstudyError) -> None:
        # Forbidden or missing topics are answers; a cluster that does not respond fails the sweep.
        if error.code in {"not_found", "not_authorised"}:
            return
        self.close(cluster.pk)
        raise error

    def _admin(self, cluster: Cluster) -> Admin:
        known = self._open.get(cluster.pk)
        if known is None or known[0] != cluster.updated_at:
            self.close(cluster.pk)
            admin = Admin(cluster.spec, client_id="understudy-sweep")
            known = self._open[cluster.pk] = (cluster.updated_at, admin)
        return known[1]


CONNECTIONS = SourceConnections()

EVERY = timedelta(seconds=10)
AT_MOST_EVERY = timedelta(seconds=120)
# A sweep may take one part in SHARE of a worker's time.
SHARE = 20
DEADLINE_S = 10.0
# All targets of a scan together, however many do not respond.
TARGETS_DEADLINE_S = 12.0
MOST_TARGETS = 64
_CLAIM = timedelta(seconds=55)
_BATCH = 500
_KEY = ("cluster_id", "topic", "partition")
_COLUMNS = (*_KEY, "earliest", "end", "stable_end", "steps", "held_since", "as_of")


def due_clusters(now: datetime) -> list[int]:
    """Sources of flows that may be failed over, that are due and not claimed."""
    wanted = Cluster.objects.filter(flows_out__in=_protected()).distinct()
    free = Q(sweep__claimed_until=None) | Q(sweep__claimed_until__lt=now)
    due = Q(sweep=None) | (Q(sweep__due_at__lte=now) & free)
    return list(wanted.filter(due).values_list("pk", flat=True))


def _protected() -> QuerySet[Flow]:
    """Includes stopped flows: records that they do not copy are owed."""
    idle = Q(desired_state=DesiredState.STOPPED, observed_state=ObservedState.DRAFT)
    return Flow.objects.exclude(idle).exclude(observed_state=ObservedState.FAILED_OVER)


class OffsetSource(Protocol):
    def topics(self, cluster: Cluster, *, deadline_s: float) -> ClusterSnapshot: ...

    def list_offsets(
        self, cluster: Cluster, partitions: Sequence[TopicPartition], *, deadline_s: float
    ) -> OffsetAnswers: ...

    def topic_ids(
        self, cluster: Cluster, topics: Iterable[str], *, deadline_s: float
    ) -> dict[str, str]: ...


def scan_source(*, cluster_id: int, now: datetime, sources: OffsetSource = CONNECTIONS) -> bool:
    """True if this call swept the cluster; False if another call did, or on failure."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None or not _claim(cluster, now):
        return False
    if cluster.reachable is False:
        # The cluster check already waits for this cluster; do not wait a second time.
        _failed(cluster, cluster.reason, now)
        return False
    silent = unreported_lag.unreported_flows(cluster=cluster, now=now)
    partitions = set(_replicated_partitions(cluster).values_list("topic", "partition").distinct())
    began = time.monotonic()
    topics = None
    try:
        if silent:
            topics = sources.topics(cluster, deadline_s=DEADLINE_S)
            for flow in silent:
                partitions.update(unreported_lag.selected_partitions(flow, topics))
        asked = sorted(partitions)
        answers = (
            sources.list_offsets(cluster, asked, deadline_s=DEADLINE_S)
            if asked
            else OffsetAnswers()
        )
    except UnderstudyError as error:
        _failed(cluster, error.message, now)
        return False
    if topics is not None:
        seen = unreported_lag.SourceRanges(
            topics=topics, earliest=answers.earliest, end=answers.end, stable=answers.stable
        )
        ids = _remote_ids(silent, sources)
        for flow in silent:
            there = ids.get(flow.target_id)
            unreported_lag.observe(flow=flow, seen=seen, now=now, remote_ids=there)
    ranges = _update_ranges(cluster, asked, answers, now)
    flow_outlook.store_forecasts(cluster=cluster, ranges=ranges, now=now)
    _succeeded(cluster, asked, ranges, answers.refused, now, time.monotonic() - began)
    return True


def _remote_ids(flows: Iterable[Flow], sources: OffsetSource) -> dict[int, dict[str, str]]:
    """The ids of the remote topics by target; none for a target that does not respond.

    The targets are asked at the same time, because the scan is claimed for less than a minute.
    """
    topics = unreported_lag.remote_topics(flows)
    asked = [target for target in topics if target.reachable is not False]
    if not asked:
        return {}
    pool = ThreadPoolExecutor(min(len(asked), MOST_TARGETS), thread_name_prefix="targets")
    try:
        calls = {
            pool.submit(sources.topic_ids, target, topics[target], deadline_s=DEADLINE_S): target.pk
            for target in asked
        }
        answered, _ = wait(calls, timeout=TARGETS_DEADLINE_S)
        found = {}
        for call in answered:
            with contextlib.suppress(UnderstudyError):
                found[calls[call]] = call.result()
        return found
    finally:
        # Each call has a deadline of its own, so no thread stays.
        pool.shutdown(wait=False, cancel_futures=True)


def _claim(cluster: Cluster, now: datetime) -> bool:
    ClusterSweep.objects.get_or_create(cluster=cluster, defaults={"due_at": now})
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    rows = ClusterSweep.objects.filter(free, cluster=cluster, due_at__lte=now)
    return bool(rows.update(claimed_until=now + _CLAIM))


def _replicated_partitions(cluster: Cluster) -> QuerySet[FlowPartition]:
    rows = FlowPartition.objects.filter(flow__source=cluster).order_by()
    # A skipped partition no longer exists on the source.
    rows = rows.exclude(state="skipped")
    return rows.exclude(flow__desired_state=DesiredState.STOPPED)


def _failed(cluster: Cluster, why: str, now: datetime) -> None:
    row = ClusterSweep.objects.get(cluster=cluster)
    pause = min(AT_MOST_EVERY, EVERY * 2 ** min(row.failures, 8))
    row.failures, row.error, row.claimed_until = row.failures + 1, why, None
    row.due_at, row.stale_since = now + pause, row.stale_since or row.as_of or now
    row.save()


def _succeeded(
    cluster: Cluster,
    topic_partitions: list[TopicPartition],
    ranges: dict[TopicPartition, Range],
    refused: str,
    now: datetime,
    seconds: float,
) -> None:
    pause = min(AT_MOST_EVERY, max(EVERY, timedelta(seconds=seconds * SHARE)))
    ClusterSweep.objects.filter(cluster=cluster).update(
        due_at=now + pause,
        claimed_until=None,
        as_of=now,
        stale_since=None,
        error=refused,
        failures=0,
        partitions=len(topic_partitions),
        unanswered=len(topic_partitions) - len(ranges),
        took_ms=round(seconds * 1000),
    )


def _update_ranges(
    cluster: Cluster, partitions: Iterable[TopicPartition], answers: OffsetAnswers, now: datetime
) -> dict[TopicPartition, Range]:
    """Offsets by partition; saves only rows whose earliest offset or open transaction changed."""
    known = {
        (topic, partition): Range(
            earliest=earliest,
            end=end,
            stable=stable,
            steps=tuple((at, offset) for at, offset in steps),
            held_since=milliseconds(held) if held else None,
        )
        for topic, partition, earliest, end, stable, steps, held in _rows(cluster)
    }
    at, found, changed = milliseconds(now), {}, []
    for tp in partitions:
        if not answers.is_complete(tp):
            continue
        before = known.pop(tp, None)
        after = found[tp] = observe(
            before,
            earliest=answers.earliest[tp],
            end=answers.end[tp],
            stable=answers.stable[tp],
            at=at,
        )
        if before is None or _must_save(before, after):
            changed.append((tp, after))
    _write(cluster, changed, now)
    _delete_ranges(cluster, set(known) - set(partitions))
    return found


def _rows(cluster: Cluster) -> Iterable[tuple[str, int, int, int, int, list[list[int]], datetime]]:
    rows = PartitionRange.objects.filter(cluster=cluster).order_by()
    fields = ("topic", "partition", "earliest", "end", "stable_end", "steps", "held_since")
    return rows.values_list(*fields)


def _must_save(before: Range, after: Range) -> bool:
    if before.earliest != after.earliest or before.held_since != after.held_since:
        return True
    return after.held_since is not None and before.stable != after.stable


def _write(
    cluster: Cluster, changed: Sequence[tuple[TopicPartition, Range]], now: datetime
) -> None:
    """Plain SQL: when retention moves thousands of partitions, model rows take a second more."""
    if not changed:
        return
    named = [connection.ops.quote_name(name) for name in _COLUMNS]
    table = connection.ops.quote_name(PartitionRange._meta.db_table)
    updates = ", ".join(f"{name} = EXCLUDED.{name}" for name in named[len(_KEY) :])
    statement = (
        f"INSERT INTO {table} ({', '.join(named)}) VALUES ({', '.join(['%s'] * len(named))})"  # noqa: S608
        f" ON CONFLICT ({', '.join(named[: len(_KEY)])}) DO UPDATE SET {updates}"
    )
    as_of = connection.ops.adapt_datetimefield_value(now)
    rows = [
        (
            cluster.pk,
            *tp,
            found.earliest,
            found.end,
            found.stable,
            json.dumps(found.steps),
            _held(found),
            as_of,
        )
        for tp, found in changed
    ]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _BATCH):
            cursor.executemany(statement, rows[start : start + _BATCH])


def _held(found: Range) -> Any:
    if found.held_since is None:
        return None
    return connection.ops.adapt_datetimefield_value(moment(found.held_since))


def _delete_ranges(cluster: Cluster, gone: set[TopicPartition]) -> None:
    """Delete rows of partitions that no flow copies any more, one topic at a time."""
    for topic in {tp[0] for tp in gone}:
        numbers = [number for name, number in gone if name == topic]
        rows = PartitionRange.objects.filter(cluster=cluster, topic=topic)
        rows.filter(partition__in=numbers[:_BATCH]).delete()
