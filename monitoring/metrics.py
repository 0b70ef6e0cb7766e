"""What Prometheus reads: flows, topics, runners, clusters; and MirrorMaker 2's own names.

By default one series a topic; `?partitions=1` adds those of every partition. Labels are the words
that pages use; units stand in the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mirrors.models import Cluster, FlowPartition, FlowTopic, Job, Runner, Sighting
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.models.proving import readiness_of, with_readiness
from mirrors.models.reading import flows_with_lag
from mirrors.models.runners import RunnerState
from monitoring import gauges, parts
from monitoring.domain.lag import FINE
from monitoring.gauges import FLOW, partition_series
from monitoring.gauges import gauge as _gauge
from monitoring.models import Alert, AlertState, LagSample, Severity

TOPIC = (*FLOW, "topic")
MM2 = "kafka_connect_mirror_mirrorsourceconnector_"
_MM2_FLOW = ("source", "target")
_MM2_TOPIC = (*_MM2_FLOW, "topic")

Labels = tuple[str, ...]


def scrape(*, now: datetime, partitions: bool) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Rows(now))
    text = generate_latest(registry)
    return text + partition_series() if partitions else text


class _Rows(Collector):
    """Reads the rows once per scrape, a fixed number of queries."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterator[Metric]:
        flows = list(with_readiness(flows_with_lag()))
        labels: dict[int, Labels] = {
            flow.pk: (flow.label, flow.source.alias, flow.target.alias) for flow in flows
        }
        yield from _lags(flows, labels, self.now)
        yield from _states(flows, labels)
        yield from _proofs(flows, labels, self.now)
        yield from _copied(labels)
        yield from _rates(flows, labels)
        yield from gauges.ahead(labels, self.now)
        yield from gauges.duties(labels, self.now)
        yield from parts.series(labels)
        yield from _topics(labels)
        yield from _runners(self.now)
        yield from _others(self.now)


def _lags(flows: list[Any], labels: dict[int, Labels], now: datetime) -> Iterator[Metric]:
    """A figure that is not known has no series: 0 would say that nothing is behind."""
    lag = _gauge("understudy_flow_offset_lag_records", "Records not yet copied", FLOW)
    age = _gauge("understudy_flow_time_lag_seconds", "Age of the oldest record not copied", FLOW)
    old = _gauge("understudy_flow_figures_age_seconds", "Age of the flow's figures", FLOW)
    for flow in flows:
        if flow.offset_lag is not None:
            lag.add_metric(labels[flow.pk], flow.offset_lag)
        time_lag = 0 if flow.offset_lag == 0 else flow.time_lag_ms
        if time_lag is not None:
            age.add_metric(labels[flow.pk], time_lag / 1000)
        if flow.as_of is not None:
            old.add_metric(labels[flow.pk], (now - flow.as_of).total_seconds())
    yield from (lag, age, old)


def _states(flows: list[Any], labels: dict[int, Labels]) -> Iterator[Metric]:
    """One series a state, 1 for the one that holds: a sum counts the flows in it."""
    for name, text, field, states in (
        ("understudy_flow_state", "State as seen", "observed_state", ObservedState.values),
        ("understudy_flow_desired_state", "State as asked", "desired_state", DesiredState.values),
    ):
        family = _gauge(name, f"{text}: 1 for the one that holds", (*FLOW, "state"))
        for flow in flows:
            for state in states:
                holds = 1 if getattr(flow, field) == state else 0
                family.add_metric((*labels[flow.pk], state), holds)
        yield family


def _proofs(flows: list[Any], labels: dict[int, Labels], now: datetime) -> Iterator[Metric]:
    """A flow that no drill ever proved has no age: 0 would say that it was proven just now."""
    score = _gauge("understudy_flow_readiness_score", "How ready the standby is, 0 to 100", FLOW)
    age = _gauge("understudy_flow_last_proven_age_seconds", "Since a drill last passed", FLOW)
    failed = _gauge("understudy_flow_last_drill_failed", "1 when the last drill failed", FLOW)
    for pk, found in readiness_of(flows, now).items():
        score.add_metric(labels[pk], found.score)
    for flow in flows:
        if flow.proven_at is not None:
            age.add_metric(labels[flow.pk], (now - flow.proven_at).total_seconds())
        if flow.drilled_at is not None:
            failed.add_metric(labels[flow.pk], 1 if flow.drill_state == "failed" else 0)
    yield from (score, age, failed)


def _copied(labels: dict[int, Labels]) -> Iterator[Metric]:
    """Over all kept jobs of a flow; when old ones are forgotten, a rate takes it for a reset."""
    records = CounterMetricFamily("understudy_flow_records", "Records copied", labels=FLOW)
    size = CounterMetricFamily("understudy_flow_bytes", "Bytes copied", labels=FLOW)
    mm2 = _gauge(f"{MM2}byte_count", "Bytes copied, by flow", _MM2_FLOW)
    totals = Job.objects.order_by().values_list("flow").annotate(Sum("records"), Sum("bytes"))
    for flow, copied, volume in totals:
        if flow in labels:
            records.add_metric(labels[flow], copied)
            size.add_metric(labels[flow], volume)
            mm2.add_metric(labels[flow][1:], volume)
    yield from (records, size, mm2)


def _rates(flows: list[Any], labels: dict[int, Labels]) -> Iterator[Metric]:
    behind = _gauge("understudy_flow_partitions_out_of_sync", "Partitions not in step", FLOW)
    records = _gauge(f"{MM2}record_rate", "Records a second, by flow", _MM2_FLOW)
    size = _gauge(f"{MM2}byte_rate", "Bytes a second, by flow", _MM2_FLOW)
    newest = LagSample.objects.filter(resolution=FINE.seconds, flow__feed__stale_since=None)
    last = newest.order_by("-at").values_list("at", flat=True).first()
    rows = newest.filter(at=last) if last and flows else newest.none()
    fields = ("flow", "records_per_second", "bytes_per_second", "out_of_sync")
    for flow, copied, volume, out_of_sync in rows.values_list(*fields):
        if flow not in labels:
            continue
        behind.add_metric(labels[flow], out_of_sync)
        if copied is not None:
            records.add_metric(labels[flow][1:], copied)
            size.add_metric(labels[flow][1:], volume)
    yield from (behind, records, size)


def _topics(labels: dict[int, Labels]) -> Iterator[Metric]:
    lag = _gauge("understudy_topic_offset_lag_records", "Records not yet copied", TOPIC)
    age = _gauge("understudy_topic_time_lag_seconds", "Age of the oldest record", TOPIC)
    parts = _gauge("understudy_topic_partitions", "Partitions of the source topic", TOPIC)
    mm2 = _gauge(f"{MM2}record_age_ms", "Age of the oldest record not copied", _MM2_TOPIC)
    rows = FlowTopic.objects.exclude(remote_topic=None).order_by()
    fields = ("flow", "topic", "remote_topic", "offset_lag", "time_lag_ms", "partitions")
    for flow, topic, remote, behind, oldest, count in rows.values_list(*fields):
        if flow not in labels:
            continue
        key = (*labels[flow], topic)
        parts.add_metric(key, count)
        if behind is not None:
            lag.add_metric(key, behind)
            oldest = 0 if behind == 0 else oldest
        if oldest is not None:
            age.add_metric(key, oldest / 1000)
            mm2.add_metric((*labels[flow][1:], remote), oldest)
    yield from (lag, age, parts, mm2, _mm2_records(labels))


def _mm2_records(labels: dict[int, Labels]) -> Metric:
    """Upstream offsets passed: MM2 counts from its start, so only the rate is the same."""
    family = _gauge(f"{MM2}record_count", "Source offsets passed; use its rate", _MM2_TOPIC)
    passed = FlowPartition.objects.order_by().values_list("flow", "remote_topic")
    for flow, remote, position in passed.annotate(Sum("position")):
        if flow in labels and position is not None:
            family.add_metric((*labels[flow][1:], remote), position)
    return family


def _runners(now: datetime) -> Iterator[Metric]:
    names = ("runner", "host")
    up = _gauge("understudy_runner_up", "1 while the runner is ready", names)
    slots = _gauge("understudy_runner_slots", "Slices that the runner takes at once", names)
    used = _gauge("understudy_runner_slots_used", "Slots in use", names)
    memory = _gauge("understudy_runner_memory_bytes", "Resident memory of the runner", names)
    seen = _gauge("understudy_runner_seen_age_seconds", "Since the runner was seen", names)
    for runner in Runner.objects.all():
        key = (runner.name, runner.host)
        up.add_metric(key, 1 if runner.state == RunnerState.READY else 0)
        slots.add_metric(key, runner.slots)
        if runner.slots_used is not None:
            used.add_metric(key, runner.slots_used)
        if runner.rss_bytes is not None:
            memory.add_metric(key, runner.rss_bytes)
        if runner.seen_at is not None:
            seen.add_metric(key, (now - runner.seen_at).total_seconds())
    yield from (up, slots, used, memory, seen)


def _others(now: datetime) -> Iterator[Metric]:
    reach = _gauge("understudy_cluster_reachable", "1 when the last look succeeded", ("cluster",))
    for alias, reachable in Cluster.objects.exclude(reachable=None).values_list(
        "alias", "reachable"
    ):
        reach.add_metric((alias,), 1 if reachable else 0)
    seen = _gauge(
        "understudy_process_seen_age_seconds", "Since a process was seen", ("kind", "name")
    )
    for row in Sighting.objects.all():
        seen.add_metric((row.kind, row.name), (now - row.seen_at).total_seconds())
    firing = _gauge("understudy_alerts_firing", "Alerts that fire", ("severity",))
    counts = Alert.objects.filter(state=AlertState.FIRING).order_by().values_list("severity")
    known = dict(counts.annotate(Count("pk")))
    for severity in Severity.values:
        firing.add_metric((severity,), known.get(severity, 0))
    yield from (reach, seen, firing)
