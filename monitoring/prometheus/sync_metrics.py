"""Metrics of forecasts, costs, heartbeats, checkpoints, schemas and replicated records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import OuterRef, Subquery

from mirrors.domain.sync.tasks import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowTopic, HeartbeatState, SchemaSync
from monitoring.forecasts import usage
from monitoring.models import ClusterSweep, FlowOutlook
from monitoring.prometheus.mm2_names import Labels, Mm2Metric
from monitoring.prometheus.text_format import Series, labelled

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
    yield from (loses, risk, held)


def sweep_ages(now: datetime) -> Series:
    swept = Series("understudy_cluster_sweep_age_seconds", "Time since the last scan of the source")
    sweeps = ClusterSweep.objects.exclude(as_of=None).values_list("cluster__alias", "as_of")
    for alias, as_of in sweeps:
        if as_of is not None:
            swept.add(labelled(cluster=alias), (now - as_of).total_seconds())
    return swept


def cost_series(
    flows: Iterable[Flow], labels: Mapping[int, Labels], now: datetime
) -> Iterator[Series]:
    """The month so far. Without a price there is no cost, with a short history no forecast."""
    sent = Series("understudy_flow_month_bytes", "Bytes sent to the target this month (UTC)")
    cost = Series("understudy_flow_month_cost", "Their cost")
    forecast = Series("understudy_flow_month_cost_forecast", "Cost of the month at the mean rate")
    budget = Series("understudy_flow_month_budget", "Budget of the month")
    for flow, found in usage.costs(flows, now).items():
        if found.since is None:
            continue
        sent.add(labels[flow].flow, found.bytes)
        key = f"{labels[flow].flow},{labelled(currency=found.currency)}"
        amounts = ((cost, found.cost), (forecast, found.forecast), (budget, found.budget))
        for series, amount in amounts:
            if amount is not None:
                series.add(key, float(amount))
    yield from (sent, cost, forecast, budget)


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
    yield from (beat, latency, _checkpoints(labels, now), *_schemas(labels, now))


def _schemas(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Of flows whose registries were compared. After a failure only the age is known."""
    age = Series("understudy_flow_schemas_age_seconds", "Time since schemas were last compared")
    pending = Series("understudy_flow_schemas_pending", "Changes that the target's registry lacks")
    conflicts = Series("understudy_flow_schemas_conflicts", "Subjects that cannot be synchronized")
    fields = ("flow", "as_of", "error", "pending", "conflicts")
    rows = SchemaSync.objects.exclude(as_of=None).values_list(*fields)
    for flow, as_of, error, missing, refused in rows:
        if flow not in labels or as_of is None:
            continue
        age.add(labels[flow].flow, max(0.0, (now - as_of).total_seconds()))
        if not error:
            pending.add(labels[flow].flow, missing)
            conflicts.add(labels[flow].flow, refused)
    yield from (age, pending, conflicts)


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


def replicated(labels: Mapping[int, Labels], *, by_partition: bool) -> Iterator[Series]:
    """Records and bytes of each topic, also with MirrorMaker 2's names.

    Those with MirrorMaker 2's names are those of the partitions if these are asked for.
    """
    records = Series("understudy_topic_records_total", "Records replicated", "counter")
    size = Series("understudy_topic_bytes_total", "Bytes sent to the target", "counter")
    record_count = Mm2Metric("record_count", "Records replicated")
    byte_count = Mm2Metric("byte_count", "Bytes sent to the target")
    rows = FlowTopic.objects.exclude(remote_topic=None).exclude(job=None).order_by()
    fields = ("flow", "topic", "remote_topic", "records", "bytes")
    for flow, topic, remote, count, volume in rows.values_list(*fields):
        if flow not in labels:
            continue
        key = f"{labels[flow].flow},{labelled(topic=topic)}"
        records.add(key, count)
        size.add(key, volume)
        if not by_partition:
            more = f",{labelled(topic=remote)}"
            record_count.add(labels[flow], count, more)
            byte_count.add(labels[flow], volume, more)
    yield from (records, size, *record_count.series(), *byte_count.series())
