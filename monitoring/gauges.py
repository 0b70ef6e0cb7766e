"""Series of what lies ahead and of what keeps a flow honest: forecasts, heartbeats, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.db.models import OuterRef, Subquery

from mirrors.domain.duty_table import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowPartition, HeartbeatState
from monitoring.models import ClusterSweep, FlowOutlook
from monitoring.series import Labels, Series, labelled

# Checkpoints older than this are as good as none.
_LATELY_S = 2 * 86_400


def ahead(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """What the last sweep of each source says; a flow that loses nothing has no time."""
    loses = Series("understudy_flow_loses_data_seconds", "Until retention overtakes it")
    risk = Series("understudy_flow_partitions_at_risk", "Partitions that will lose data")
    held = Series("understudy_flow_held_records", "Kept back by open transactions")
    fields = ("flow", "loses_at", "at_risk", "held_records")
    for flow, loses_at, at_risk, kept_back in FlowOutlook.objects.values_list(*fields):
        if flow not in labels:
            continue
        if loses_at is not None:
            loses.add(labels[flow].flow, max(0.0, (loses_at - now).total_seconds()))
        risk.add(labels[flow].flow, at_risk)
        held.add(labels[flow].flow, kept_back)
    swept = Series("understudy_cluster_sweep_age_seconds", "Since its last sweep")
    sweeps = ClusterSweep.objects.exclude(as_of=None).values_list("cluster__alias", "as_of")
    for alias, as_of in sweeps:
        if as_of is None:
            continue
        swept.add(labelled(cluster=alias), (now - as_of).total_seconds())
    yield from (loses, risk, held, swept)


def duties(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    beat = Series("understudy_flow_heartbeat_age_seconds", "Of the newest on the target")
    latency = Series("understudy_flow_end_to_end_seconds", "A heartbeat's way to the target")
    fields = ("flow", "seen_at", "latency_ms")
    for flow, seen_at, took in HeartbeatState.objects.exclude(seen_at=None).values_list(*fields):
        if flow not in labels:
            continue
        beat.add(labels[flow].flow, max(0.0, (now - seen_at).total_seconds()))
        if took is not None:
            latency.add(labels[flow].flow, took / 1000)
    yield from (beat, latency, _checkpoints(labels, now))


def _checkpoints(labels: Mapping[int, Labels], now: datetime) -> Series:
    age = Series("understudy_flow_checkpoint_age_seconds", "Since they were last written")
    done = DutyRun.objects.filter(flow=OuterRef("pk"), duty=CHECKPOINTS.name, error="")
    lately = done.filter(ended_at__isnull=False, slot__gte=int(now.timestamp()) - _LATELY_S)
    last = Subquery(lately.order_by("-slot").values("ended_at")[:1])
    for flow, ended_at in Flow.objects.order_by().values_list("pk", last):
        if flow in labels and ended_at is not None:
            age.add(labels[flow].flow, max(0.0, (now - ended_at).total_seconds()))
    return age


def partitions(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Three series a partition: what is the same for all of a topic is written once."""
    lag = Series("understudy_partition_offset_lag_records", "Records not yet copied")
    age = Series("understudy_partition_time_lag_seconds", "Age of the oldest record")
    position = Series("understudy_partition_position", "Next offset to be copied")
    lags, ages, positions = (one.lines.append for one in (lag, age, position))
    heads: dict[tuple[int, str], list[str]] = {}
    fields = ("flow", "topic", "partition", "offset_lag", "time_lag_ms", "position")
    rows = FlowPartition.objects.order_by().values_list(*fields)
    for flow, topic, number, behind, oldest, at in rows.iterator(chunk_size=5000):
        head = heads.get((flow, topic))
        if head is None:
            if flow not in labels:
                continue
            same = f'{{{labels[flow].flow},{labelled(topic=topic)},partition="'
            head = heads[flow, topic] = [f"{one.name}{same}" for one in (lag, age, position)]
        if behind is not None:
            lags(f'{head[0]}{number}"}} {behind}')
            oldest = 0 if behind == 0 else oldest
        if oldest is not None:
            ages(f'{head[1]}{number}"}} {oldest / 1000}')
        if at is not None:
            positions(f'{head[2]}{number}"}} {at}')
    yield from (lag, age, position)
