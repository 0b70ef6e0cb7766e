"""Metrics of each partition, with Understudy's names and MirrorMaker 2's.

An unknown figure has no series. Most rows of a large installation are here, so each is read once,
and its lines are written without a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from django.db.models import BooleanField, ExpressionWrapper, Q

from mirrors.domain.account.totals import NEVER_OWED, OLD_AFTER_MS
from mirrors.domain.flows.latency import Latency
from mirrors.domain.formatting import OLD_AFTER
from mirrors.models import FlowPartition
from monitoring.prometheus.mm2_names import (
    RECORD_AGE,
    REPLICATION_LATENCY,
    Labels,
    Mm2Family,
    Mm2Metric,
    Start,
)
from monitoring.prometheus.text_format import Series, labelled

_FIELDS = (
    "flow",
    "topic",
    "remote_topic",
    "partition",
    "offset_lag",
    "time_lag_ms",
    "position",
    "records",
    "bytes",
)


@dataclasses.dataclass
class _Heads:
    """Beginnings of the lines of a topic's partitions, by series."""

    lag: str
    age: str
    position: str
    # Of records and of bytes, for each of the names.
    counts: list[tuple[Start, Start]]
    record_age: list[Start]


def series(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    yield from _progress(labels, now)
    yield from _latencies(labels, now)


def known_to_be_current(seen_at: str, now: datetime) -> ExpressionWrapper:
    """Whether a row's source was just read, or nothing can be owed: only then 0 is no lower bound.

    `seen_at` names the column with the time of that read.
    """
    fresh = Q(**{f"{seen_at}__gte": now - timedelta(milliseconds=OLD_AFTER_MS)})
    return ExpressionWrapper(fresh | Q(account_state__in=NEVER_OWED), BooleanField())


def _progress(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Counts start with the last job, which `rate()` sees as a counter reset.

    A lag of 0 has a series only where the source was just read.
    """
    lag = Series("understudy_partition_offset_lag_records", "Records not yet replicated")
    age = Series("understudy_partition_time_lag_seconds", "Age of the oldest record")
    position = Series("understudy_partition_position", "Next offset to replicate")
    count = Mm2Metric("record_count", "Records replicated")
    volume = Mm2Metric("byte_count", "Bytes sent to the target")
    record_age = Mm2Metric(*RECORD_AGE)
    ours = (lag, age, position)
    lags, ages, positions = (one.lines.append for one in ours)
    topics: dict[tuple[int, str], _Heads] = {}
    # No `iterator()`: for its cursor, PostgreSQL would materialize all rows first.
    rows = FlowPartition.objects.order_by()
    for flow, topic, remote, number, behind, oldest, at, records, size, current in rows.values_list(
        *_FIELDS, known_to_be_current("as_of", now)
    ):
        head = topics.get((flow, topic))
        if head is None:
            if flow not in labels:
                continue
            key = f'{{{labels[flow].flow},{labelled(topic=topic)},partition="'
            more = f',{labelled(topic=remote)},partition="'
            mine = (count.starts(labels[flow], more), volume.starts(labels[flow], more))
            head = _Heads(
                lag.name + key,
                age.name + key,
                position.name + key,
                list(zip(*mine, strict=True)),
                record_age.starts(labels[flow], more),
            )
            topics[flow, topic] = head
        if behind or (behind is not None and current):
            lags(f'{head.lag}{number}"}} {behind}')
        if oldest or (oldest is not None and current):
            ages(f'{head.age}{number}"}} {oldest / 1000}')
            if remote:
                for append, start in head.record_age:
                    append(f'{start}{number}"}} {oldest}')
        if at is not None:
            positions(f'{head.position}{number}"}} {at}')
            for (append, start), (append_size, start_of_size) in head.counts:
                append(f'{start}{number}"}} {records}')
                append_size(f'{start_of_size}{number}"}} {size}')
    yield from (*ours, *count.series(), *volume.series(), *record_age.series())


def _latencies(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Of flows with fresh figures; a partition to which nothing was committed has none."""
    family = Mm2Family(*REPLICATION_LATENCY)
    fresh = FlowPartition.objects.filter(flow__as_of__gte=now - OLD_AFTER, latency__isnull=False)
    for flow, remote, number, found in fresh.order_by().values_list(
        "flow", "remote_topic", "partition", "latency"
    ):
        if flow not in labels:
            continue
        latency = Latency(*found)
        values = (latency.mean_ms, latency.min_ms, latency.max_ms)
        family.add(labels[flow], values, f',{labelled(topic=remote)},partition="{number}"')
    yield from family.series()
