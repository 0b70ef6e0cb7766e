"""Metrics of each partition, with Understudy's names and MirrorMaker 2's.

An unknown figure has no series. Most rows of a large installation are here, so each is read once,
and its lines are written without a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import datetime

from mirrors.domain.flows.latency import Latency
from mirrors.domain.formatting import OLD_AFTER
from mirrors.models import FlowPartition
from monitoring.prometheus.text_format import (
    MM2,
    RECORD_AGE,
    REPLICATION_LATENCY,
    Family,
    Labels,
    Series,
    labelled,
)

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
    records: str
    size: str
    record_age: str


def series(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    yield from _progress(labels)
    yield from _latencies(labels, now)


def _progress(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Counts start with the last job, which `rate()` sees as a counter reset."""
    every = (
        Series("understudy_partition_offset_lag_records", "Records not yet replicated"),
        Series("understudy_partition_time_lag_seconds", "Age of the oldest record"),
        Series("understudy_partition_position", "Next offset to replicate"),
        Series(f"{MM2}record_count", "Records replicated"),
        Series(f"{MM2}byte_count", "Bytes sent to the target"),
        Series(*RECORD_AGE),
    )
    lags, ages, positions, counts, sizes, record_ages = (one.lines.append for one in every)
    topics: dict[tuple[int, str], _Heads] = {}
    # No `iterator()`: for its cursor, PostgreSQL would materialize all rows first.
    rows = FlowPartition.objects.order_by()
    for flow, topic, remote, number, behind, oldest, at, records, size in rows.values_list(
        *_FIELDS
    ):
        head = topics.get((flow, topic))
        if head is None:
            if flow not in labels:
                continue
            ours = f'{{{labels[flow].flow},{labelled(topic=topic)},partition="'
            mm2 = f'{{{labels[flow].mm2},{labelled(topic=remote)},partition="'
            keys = (ours, ours, ours, mm2, mm2, mm2)
            names = (one.name for one in every)
            head = _Heads(*(name + key for name, key in zip(names, keys, strict=True)))
            topics[flow, topic] = head
        if behind is not None:
            lags(f'{head.lag}{number}"}} {behind}')
        if oldest is not None:
            ages(f'{head.age}{number}"}} {oldest / 1000}')
            if remote:
                record_ages(f'{head.record_age}{number}"}} {oldest}')
        if at is not None:
            positions(f'{head.position}{number}"}} {at}')
            counts(f'{head.records}{number}"}} {records}')
            sizes(f'{head.size}{number}"}} {size}')
    yield from every


def _latencies(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Of flows with fresh figures; a partition to which nothing was committed has none."""
    family = Family(*REPLICATION_LATENCY)
    fresh = FlowPartition.objects.filter(flow__as_of__gte=now - OLD_AFTER, latency__isnull=False)
    for flow, remote, number, found in fresh.order_by().values_list(
        "flow", "remote_topic", "partition", "latency"
    ):
        if flow not in labels:
            continue
        latency = Latency(*found)
        key = f'{labels[flow].mm2},{labelled(topic=remote)},partition="{number}"'
        family.add(key, latency.mean_ms, latency.min_ms, latency.max_ms)
    yield from family.series
