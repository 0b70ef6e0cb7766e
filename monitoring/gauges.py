"""Series of what lies ahead and of what keeps a flow honest: forecasts, heartbeats, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import Max
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from mirrors.domain.duty_table import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowPartition, HeartbeatState
from monitoring.models import ClusterSweep, FlowOutlook

FLOW = ("flow", "source", "target")
Labels = tuple[str, ...]
# Checkpoints older than this are as good as none.
_LATELY_S = 2 * 86_400


def ahead(labels: Mapping[int, Labels], now: datetime) -> Iterator[Metric]:
    """What the last sweep of each source says; a flow that loses nothing has no time."""
    loses = gauge("understudy_flow_loses_data_seconds", "Until retention overtakes it", FLOW)
    risk = gauge("understudy_flow_partitions_at_risk", "Partitions that will lose data", FLOW)
    held = gauge("understudy_flow_held_records", "Kept back by open transactions", FLOW)
    fields = ("flow", "loses_at", "at_risk", "held_records")
    for flow, loses_at, at_risk, kept_back in FlowOutlook.objects.values_list(*fields):
        if flow not in labels:
            continue
        if loses_at is not None:
            loses.add_metric(labels[flow], max(0.0, (loses_at - now).total_seconds()))
        risk.add_metric(labels[flow], at_risk)
        held.add_metric(labels[flow], kept_back)
    swept = gauge("understudy_cluster_sweep_age_seconds", "Since its last sweep", ("cluster",))
    sweeps = ClusterSweep.objects.exclude(as_of=None).values_list("cluster__alias", "as_of")
    for alias, as_of in sweeps:
        if as_of is None:
            continue
        swept.add_metric((alias,), (now - as_of).total_seconds())
    yield from (loses, risk, held, swept)


def duties(labels: Mapping[int, Labels], now: datetime) -> Iterator[Metric]:
    beat = gauge("understudy_flow_heartbeat_age_seconds", "Of the newest on the target", FLOW)
    latency = gauge("understudy_flow_end_to_end_seconds", "A heartbeat's way to the target", FLOW)
    fields = ("flow", "seen_at", "latency_ms")
    for flow, seen_at, took in HeartbeatState.objects.exclude(seen_at=None).values_list(*fields):
        if flow not in labels:
            continue
        beat.add_metric(labels[flow], max(0.0, (now - seen_at).total_seconds()))
        if took is not None:
            latency.add_metric(labels[flow], took / 1000)
    yield from (beat, latency, _checkpoints(labels, now))


def _checkpoints(labels: Mapping[int, Labels], now: datetime) -> Metric:
    age = gauge("understudy_flow_checkpoint_age_seconds", "Since they were last written", FLOW)
    done = DutyRun.objects.filter(duty=CHECKPOINTS.name, error="", ended_at__isnull=False)
    lately = done.filter(slot__gte=int(now.timestamp()) - _LATELY_S).order_by()
    for flow, ended_at in lately.values_list("flow").annotate(Max("ended_at")):
        if flow in labels:
            age.add_metric(labels[flow], max(0.0, (now - ended_at).total_seconds()))
    return age


_EACH = (
    ("understudy_partition_offset_lag_records", "Records not yet copied"),
    ("understudy_partition_time_lag_seconds", "Age of the oldest record"),
    ("understudy_partition_position", "Next offset to be copied"),
)


def partition_series() -> bytes:
    """Three series a partition as text at once: as objects, 50,000 partitions take seconds."""
    heads = {
        flow.pk: f'flow="{_text(flow.name)}",source="{_text(flow.source.alias)}",'
        f'target="{_text(flow.target.alias)}"'
        for flow in Flow.objects.select_related("source", "target")
    }
    series: tuple[list[str], ...] = tuple(
        [f"# HELP {name} {says}\n# TYPE {name} gauge"] for name, says in _EACH
    )
    lag, age, position = (rows.append for rows in series)
    (lags, _), (ages, _), (positions, _) = _EACH
    fields = ("flow", "topic", "partition", "offset_lag", "time_lag_ms", "position")
    rows = FlowPartition.objects.order_by().values_list(*fields)
    for flow, topic, number, behind, oldest, at in rows.iterator(chunk_size=5000):
        if flow not in heads:
            continue
        labels = f'{{{heads[flow]},topic="{_text(topic)}",partition="{number}"}}'
        if behind is not None:
            lag(f"{lags}{labels} {behind}")
            oldest = 0 if behind == 0 else oldest
        if oldest is not None:
            age(f"{ages}{labels} {oldest / 1000}")
        if at is not None:
            position(f"{positions}{labels} {at}")
    return "\n".join("\n".join(lines) for lines in series).encode() + b"\n"


def _text(label: str) -> str:
    if "\\" in label or '"' in label or "\n" in label:
        return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return label


def gauge(name: str, text: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=list(labels))
