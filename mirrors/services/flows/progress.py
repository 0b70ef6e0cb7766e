"""The runner's status of a flow as rows: the latest figures of each topic and partition."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import models, transaction

from mirrors.domain.account.partition import Owed
from mirrors.domain.account.totals import Total
from mirrors.domain.flows.latency import Latency, add_up
from mirrors.domain.flows.speed_limits import summarize
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, TopicStatus
from mirrors.models import Flow, FlowPartition, FlowTopic, Job
from mirrors.services.account import account_of, left_behind_of
from mirrors.services.account import store as store_account
from mirrors.services.clock import moment
from mirrors.services.flows.rule_starts import note_rule_starts
from mirrors.services.gaps import foreign_records, lost_ranges

Row = TypeVar("Row", FlowTopic, FlowPartition)

# Unchanged figures are written again at this interval, so that their age stays accurate.
_REFRESH = timedelta(seconds=10)
_BATCH = 500
_TOPIC_KEY = ("topic",)
_PARTITION_KEY = ("topic", "partition")
_TOPIC_FIELDS = (
    "remote_topic",
    "state",
    "reason",
    "partitions",
    "offset_lag",
    "time_lag_ms",
    "unknown_lags",
    "owed",
    "least",
    "unknown_partitions",
    "code",
    "source_topic_id",
    "remote_topic_id",
    "certainty",
    "states",
    "account_state",
    # Not ages: what a job reported last must be stored when the next one begins to count.
    "job",
    "job_records",
    "job_bytes",
)
# They change with each status; written when another column changes, and every `_REFRESH`.
_TOPIC_AGES = ("as_of", "observed_at", "records", "bytes", "latency")
_PARTITION_AGES = ("as_of", "records", "bytes", "latency")
_PARTITION_FIELDS = (
    "remote_topic",
    "state",
    "reason",
    "position",
    "source_end",
    "source_stable_end",
    "source_first",
    "offset_lag",
    "time_lag_ms",
    "certainty",
    "account_state",
    "code",
    "counted",
    "least",
    "lane",
    "repeats",
    "dead_letters",
    "dead_letter_at",
    "why",
)


def ingest(*, flow: Flow, job: Job, status: JobStatus) -> bool:
    """Store a status that is newer than the stored one; True when it was."""
    as_of = moment(status.as_of)
    if job.as_of is not None and job.as_of >= as_of:
        return False
    with transaction.atomic():
        # Without a plan the last rows stay, with their age: a failover needs them, and with a dead
        # source no plan follows.
        if status.is_planned:
            store(
                flow=flow,
                topics=status.topics,
                partitions=status.partitions,
                not_visible=status.not_visible,
                as_of=as_of,
                job=job.pk,
            )
        lost_ranges.store_gaps(flow=flow, status=status, now=as_of)
        foreign_records.store_foreign_records(flow=flow, status=status, now=as_of)
        speed = summarize(row.speed for row in status.slices)
        Flow.objects.filter(pk=flow.pk).update(
            as_of=as_of,
            warnings=list(status.warnings),
            speed=dataclasses.asdict(speed),
            packing=dataclasses.asdict(status.packing),
        )
        note_rule_starts(flow=flow, status=status, as_of=as_of)
        Job.objects.filter(pk=job.pk).update(
            as_of=as_of,
            generation=status.generation,
            refusal=status.refusal,
            records=status.records,
            bytes=status.bytes,
            lanes=[dataclasses.asdict(row) for row in status.lanes],
        )
    return True


def store(
    *,
    flow: Flow,
    topics: Sequence[TopicStatus],
    partitions: Sequence[PartitionStatus],
    not_visible: str,
    as_of: datetime,
    is_swept: bool = False,
    job: int | None = None,
) -> None:
    """Evaluate the observations of the flow and store its rows and its account."""
    account = account_of(topics, partitions, left_behind_of(flow))
    latencies: dict[str, list[Latency | None]] = defaultdict(list)
    for seen in partitions:
        latencies[seen.topic].append(seen.latency)
    topic_rows = [_topic(flow, seen, account.topics[seen.topic], as_of, job) for seen in topics]
    for row in topic_rows:
        found = add_up(latencies[row.topic])
        row.latency = list(found) if found else None
    partition_rows = [
        _partition(flow, seen, account.partitions[seen.topic, seen.partition], as_of)
        for seen in partitions
    ]
    with transaction.atomic():
        _replace(
            FlowPartition, flow, partition_rows, _PARTITION_KEY, _PARTITION_FIELDS, _PARTITION_AGES
        )
        _replace(FlowTopic, flow, topic_rows, _TOPIC_KEY, _TOPIC_FIELDS, _TOPIC_AGES)
        store_account(
            flow=flow, rows=topic_rows, not_visible=not_visible, as_of=as_of, is_swept=is_swept
        )


def _partition(
    flow: Flow, seen: PartitionStatus, owed: Owed, reported_at: datetime
) -> FlowPartition:
    return FlowPartition(
        flow=flow,
        topic=seen.topic,
        partition=seen.partition,
        remote_topic=seen.remote_topic,
        state=seen.state,
        reason=owed.reason,
        position=seen.position,
        source_end=seen.source_end,
        source_stable_end=seen.source_stable_end,
        source_first=seen.source_first,
        offset_lag=owed.records,
        time_lag_ms=owed.time_lag_ms,
        certainty=owed.certainty,
        account_state=owed.state,
        code=seen.code,
        counted=list(seen.counted) if seen.counted else None,
        least=owed.least,
        lane=seen.lane,
        repeats=seen.repeats,
        dead_letters=seen.dead_letters,
        dead_letter_at=reported_at,
        why=seen.why,
        records=seen.records,
        bytes=seen.bytes,
        latency=list(seen.latency) if seen.latency else None,
        as_of=moment(seen.as_of),
    )


def _topic(
    flow: Flow, seen: TopicStatus, total: Total, as_of: datetime, job: int | None
) -> FlowTopic:
    return FlowTopic(
        flow=flow,
        topic=seen.topic,
        remote_topic=seen.remote_topic,
        state=seen.state,
        reason=seen.reason,
        partitions=seen.partitions,
        code=seen.code,
        source_topic_id=seen.source_topic_id,
        remote_topic_id=seen.remote_topic_id,
        offset_lag=total.exact_or_none if seen.state != "skipped" else None,
        time_lag_ms=total.time_lag_ms if seen.state != "skipped" else None,
        unknown_lags=total.unknown_lags,
        owed=total.records,
        least=total.least,
        unknown_partitions=total.unknown,
        certainty=total.certainty,
        states=dict(total.states),
        account_state=total.state,
        job=job,
        job_records=seen.records,
        job_bytes=seen.bytes,
        observed_at=None if total.observed_at is None else moment(total.observed_at),
        as_of=as_of,
    )


def _replace(
    model: type[Row],
    flow: Flow,
    rows: Iterable[Row],
    key: tuple[str, ...],
    fields: tuple[str, ...],
    ages: tuple[str, ...],
) -> None:
    """Make the table equal to `rows`, writing only differences."""
    known: dict[tuple[Any, ...], Row] = {_key(row, key): row for row in _existing(model, flow)}
    changed = []
    for row in rows:
        before = known.pop(_key(row, key), None)
        if isinstance(row, FlowPartition) and isinstance(before, FlowPartition):
            # A slice that has just started does not know it yet, and the number never falls.
            row.repeats = before.repeats if row.repeats is None else row.repeats
            if row.dead_letters is None:
                row.dead_letters = before.dead_letters
            if row.position == before.position:
                # A scan of the source, or a job that has copied nothing yet, has no counts.
                row.records, row.bytes = before.records, before.bytes
        if isinstance(row, FlowPartition):
            known_before = before if isinstance(before, FlowPartition) else None
            row.dead_letter_at = _dead_letter_at(known_before, row)
        if isinstance(row, FlowTopic):
            row.add_to(before if isinstance(before, FlowTopic) else None)
        if before is None or _differs(before, row, fields):
            changed.append(row)
    model._default_manager.bulk_create(
        changed,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["flow", *key],
        update_fields=[*fields, *ages],
    )
    gone = [row.pk for row in known.values()]
    for start in range(0, len(gone), _BATCH):
        model._default_manager.filter(pk__in=gone[start : start + _BATCH]).delete()


def _dead_letter_at(before: FlowPartition | None, row: FlowPartition) -> datetime | None:
    """When the last dead letters of the partition were reported."""
    earlier = before.dead_letters or 0 if before else 0
    if (row.dead_letters or 0) > earlier:
        return row.dead_letter_at
    return before.dead_letter_at if before else None


def _existing(model: type[Row], flow: Flow) -> models.QuerySet[Row]:
    return model._default_manager.filter(flow=flow)


def _key(row: models.Model, key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in key)


def _differs(before: Row, after: Row, fields: tuple[str, ...]) -> bool:
    if after.as_of - before.as_of >= _REFRESH or _is_much_newer(before, after):
        return True
    return any(getattr(before, name) != getattr(after, name) for name in fields)


def _is_much_newer(before: Row, after: Row) -> bool:
    """Whether a topic's sum is of a much newer observation, as after a pause of the source."""
    if not isinstance(before, FlowTopic) or not isinstance(after, FlowTopic):
        return False
    if before.observed_at is None or after.observed_at is None:
        return before.observed_at != after.observed_at
    return after.observed_at - before.observed_at >= _REFRESH
