"""What a runner says of a flow, as rows: the latest figures of each topic and partition."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import models, transaction

from mirrors.domain.jobs import JobStatus, PartitionStatus
from mirrors.models import Flow, FlowPartition, FlowTopic, Job
from mirrors.services import gaps, strangers
from mirrors.services.clock import moment

Row = TypeVar("Row", FlowTopic, FlowPartition)

# Figures that do not change are written again this often, so that their age stays true enough.
_REFRESH = timedelta(seconds=10)
_BATCH = 500
_TOPIC_KEY = ("topic",)
_PARTITION_KEY = ("topic", "partition")
_TOPIC_FIELDS = ("remote_topic", "state", "reason", "partitions", "offset_lag", "time_lag_ms")
_PARTITION_FIELDS = (
    "remote_topic",
    "state",
    "reason",
    "position",
    "source_end",
    "source_stable_end",
    "offset_lag",
    "time_lag_ms",
    "lane",
    "repeats",
    "why",
)


def ingest(*, flow: Flow, job: Job, status: JobStatus) -> bool:
    """Write down a status that is newer than the one in the rows; True when there was one."""
    as_of = moment(status.as_of)
    if job.as_of is not None and job.as_of >= as_of:
        return False
    topics, partitions = _rows(flow, status)
    with transaction.atomic():
        # What was last seen stays until there is a plan, with its age: a failover counts on it, and
        # where the source is dead no plan comes.
        if status.is_planned:
            _replace(FlowPartition, flow, partitions, _PARTITION_KEY, _PARTITION_FIELDS)
            _replace(FlowTopic, flow, topics, _TOPIC_KEY, _TOPIC_FIELDS)
        gaps.fold(flow=flow, status=status, now=as_of)
        strangers.fold(flow=flow, status=status, now=as_of)
        Flow.objects.filter(pk=flow.pk).update(as_of=as_of, warnings=list(status.warnings))
        Job.objects.filter(pk=job.pk).update(
            as_of=as_of,
            generation=status.generation,
            refusal=status.refusal,
            records=status.records,
            bytes=status.bytes,
            lanes=[dataclasses.asdict(row) for row in status.lanes],
        )
    return True


def offset_lag(partition: PartitionStatus) -> int | None:
    """Against what the flow may read: an open transaction is not yet lag."""
    readable = (
        partition.source_stable_end
        if partition.source_stable_end is not None
        else partition.source_end
    )
    if readable is None or partition.position is None:
        return None
    return max(0, readable - partition.position)


def _rows(flow: Flow, status: JobStatus) -> tuple[list[FlowTopic], list[FlowPartition]]:
    lags: dict[str, list[int | None]] = defaultdict(list)
    ages: dict[str, list[int]] = defaultdict(list)
    partitions = []
    for seen in status.partitions:
        lag = offset_lag(seen)
        lags[seen.topic].append(lag)
        if seen.time_lag_ms is not None:
            ages[seen.topic].append(seen.time_lag_ms)
        partitions.append(
            FlowPartition(
                flow=flow,
                topic=seen.topic,
                partition=seen.partition,
                remote_topic=seen.remote_topic,
                state=seen.state,
                reason=seen.reason,
                position=seen.position,
                source_end=seen.source_end,
                source_stable_end=seen.source_stable_end,
                offset_lag=lag,
                time_lag_ms=seen.time_lag_ms,
                lane=seen.lane,
                repeats=seen.repeats,
                why=seen.why,
                as_of=moment(seen.as_of),
            )
        )
    topics = [
        FlowTopic(
            flow=flow,
            topic=seen.topic,
            remote_topic=seen.remote_topic,
            state=seen.state,
            reason=seen.reason,
            partitions=seen.partitions,
            offset_lag=_sum(lags[seen.topic]),
            time_lag_ms=_oldest(ages[seen.topic], _sum(lags[seen.topic])),
            as_of=moment(status.as_of),
        )
        for seen in status.topics
    ]
    return topics, partitions


def _oldest(ages: list[int], lag: int | None) -> int | None:
    """Unknown when something is behind and only what is in step has an age, which is 0."""
    oldest = max(ages, default=None)
    return None if lag and oldest == 0 else oldest


def _sum(lags: list[int | None]) -> int | None:
    """Unknown as soon as one part is: a partial sum would promise too much."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known and len(known) == len(lags) else None


def _replace(
    model: type[Row],
    flow: Flow,
    rows: Iterable[Row],
    key: tuple[str, ...],
    fields: tuple[str, ...],
) -> None:
    """Make the table say what `rows` say, touching only what differs."""
    known: dict[tuple[Any, ...], Row] = {_key(row, key): row for row in _existing(model, flow)}
    changed = []
    for row in rows:
        before = known.pop(_key(row, key), None)
        if isinstance(row, FlowPartition) and isinstance(before, FlowPartition):
            # A slice that has only begun does not know it yet, and the number never falls.
            row.repeats = before.repeats if row.repeats is None else row.repeats
        if before is None or _differs(before, row, fields):
            changed.append(row)
    model._default_manager.bulk_create(
        changed,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["flow", *key],
        update_fields=[*fields, "as_of"],
    )
    gone = [row.pk for row in known.values()]
    for start in range(0, len(gone), _BATCH):
        model._default_manager.filter(pk__in=gone[start : start + _BATCH]).delete()


def _existing(model: type[Row], flow: Flow) -> models.QuerySet[Row]:
    return model._default_manager.filter(flow=flow)


def _key(row: models.Model, key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in key)


def _differs(before: Row, after: Row, fields: tuple[str, ...]) -> bool:
    if after.as_of - before.as_of >= _REFRESH:
        return True
    return any(getattr(before, name) != getattr(after, name) for name in fields)
