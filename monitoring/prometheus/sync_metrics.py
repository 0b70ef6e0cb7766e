"""Metrics of forecasts, heartbeats, checkpoints and partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import OuterRef, Subquery, Sum

from mirrors.domain.sync.tasks import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowPartition, HeartbeatState
from monitoring.models import ClusterSweep, FlowOutlook
from monitoring.prometheus.text_format import MM2, Labels, Series, labelled

# Older checkpoints have no series.
_LATELY_S = 2 * 86_400


def forecast_series(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Forecasts of the last sweep of each source; a flow without a forecast loss has no time."""
    loses = Series(
        "understudy_flow_loses_data_seconds",
        "Time until retention deletes records that were not replicated",
    )
    risk = Series("understudy_flow_partitions_at_risk", "Partitions that will lose data")
    held = Series("understudy_flow_held_records", "Records held back by open transactions")
    fields = ("flow", "loses_at", "at_risk", "held_records")
    for flow, loses_at, at_risk, kept_back in FlowOutlook.objects.values_list(*fields):
        if flow not in labels:
            continue
        if loses_at is not None:
            loses.add(labels[flow].flow, max(0.0, (loses_at - now).total_seconds()))
        risk.add(labels[flow].flow, at_risk)
        held.add(labels[flow].flow, kept_back)
    swept = Series("understudy_cluster_sweep_age_seconds", "Time since the last scan of the source")
    sweeps = ClusterSweep.objects.exclude(as_of=None).values_list("cluster__alias", "as_of")
    for alias, as_of in sweeps:
        if as_of is None:
            continue
        swept.add(labelled(cluster=alias), (now - as_of).total_seconds())
    yield from (loses, risk, held, swept)


def sync_series(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    beat = Series(
        "understudy_flow_heartbeat_age_seconds", "Age of the newest heartbeat on the target"
    )
    latency = Series(
        "understudy_flow_end_to_end_seconds", "Time of a heartbeat from source to target"
    )
    fields = ("flow", "seen_at", "latency_ms")
    for flow, seen_at, took in HeartbeatState.objects.exclude(seen_at=None).values_list(*fields):
        if flow not in labels:
            continue
        beat.add(labels[flow].flow, max(0.0, (now - seen_at).total_seconds()))
        if took is not None:
            latency.add(labels[flow].flow, took / 1000)
    yield from (beat, latency, _checkpoints(labels, now))


def _checkpoints(labels: Mapping[int, Labels], now: datetime) -> Series:
    age = Series(
        "understudy_flow_checkpoint_age_seconds", "Time since checkpoints were last written"
    )
    done = DutyRun.objects.filter(flow=OuterRef("pk"), duty=CHECKPOINTS.name, error="")
    lately = done.filter(ended_at__isnull=False, slot__gte=int(now.timestamp()) - _LATELY_S)
    last = Subquery(lately.order_by("-slot").values("ended_at")[:1])
    for flow, ended_at in Flow.objects.order_by().values_list("pk", last):
        if flow in labels and ended_at is not None:
            age.add(labels[flow].flow, max(0.0, (now - ended_at).total_seconds()))
    return age


def record_counts(labels: Mapping[int, Labels]) -> Series:
    """Source offsets passed. MM2 counts from its start, so only the rates are equal."""
    rows = FlowPartition.objects.order_by().values_list("flow", "remote_topic")
    return _record_counts(labels, rows.annotate(Sum("position")))


def _record_counts(
    labels: Mapping[int, Labels], sums: Iterable[tuple[int, str, int | None]]
) -> Series:
    totals: dict[tuple[int, str], int] = {}
    for flow, remote, total in sums:
        if flow in labels and total is not None:
            totals[flow, remote] = totals.get((flow, remote), 0) + total
    family = Series(f"{MM2}record_count", "Source offsets passed; use its rate")
    for (flow, remote), total in totals.items():
        family.add(f"{labels[flow].mm2},{labelled(topic=remote)}", total)
    return family


@dataclasses.dataclass
class _Topic:
    """Beginnings of the lines of its partitions, and the sum of their positions."""

    lag: str
    age: str
    position: str
    passed: int | None = None


def partitions(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Three series per partition, and `record_counts` from the same rows, read once."""
    lag = Series("understudy_partition_offset_lag_records", "Records not yet replicated")
    age = Series("understudy_partition_time_lag_seconds", "Age of the oldest record")
    position = Series("understudy_partition_position", "Next offset to replicate")
    lags, ages, positions = (one.lines.append for one in (lag, age, position))
    topics: dict[tuple[int, str, str], _Topic] = {}
    fields = ("flow", "topic", "remote_topic", "partition", "offset_lag", "time_lag_ms", "position")
    # No `iterator()`: for its cursor, PostgreSQL would materialize all rows first.
    rows = FlowPartition.objects.order_by().values_list(*fields)
    for flow, topic, remote, number, behind, oldest, at in rows:
        seen = topics.get((flow, topic, remote))
        if seen is None:
            if flow not in labels:
                continue
            same = f'{{{labels[flow].flow},{labelled(topic=topic)},partition="'
            seen = _Topic(lag.name + same, age.name + same, position.name + same)
            topics[flow, topic, remote] = seen
        if behind is not None:
            lags(f'{seen.lag}{number}"}} {behind}')
        if oldest is not None:
            ages(f'{seen.age}{number}"}} {oldest / 1000}')
        if at is not None:
            positions(f'{seen.position}{number}"}} {at}')
            seen.passed = (seen.passed or 0) + at
    sums = ((flow, remote, seen.passed) for (flow, _, remote), seen in topics.items())
    yield from (lag, age, position, _record_counts(labels, sums))
