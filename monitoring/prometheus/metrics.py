"""Prometheus metrics of flows, topics, runners and clusters; some with MirrorMaker 2's names.

By default one series per topic; `?partitions=1` adds one per partition. `?shard=2/8` has the series
of an eighth of the flows; the first shard has those of no flow too. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Sum

from mirrors.domain.formatting import OLD_AFTER
from mirrors.domain.states.flows import DESIRED, OBSERVED
from mirrors.models import Cluster, FlowTopic, Job, Runner, Sighting
from mirrors.models.access.grants import Shard, only_shard
from mirrors.models.drills.readiness import readiness_of, with_readiness
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.clock import milliseconds
from mirrors.services.comparison.conflicts import newest_reports
from mirrors.services.comparison.verified import oldest_by_topic
from mirrors.services.runners import pools
from monitoring.domain.history import FINE
from monitoring.models import Alert, AlertState, LagSample, Severity
from monitoring.prometheus import engine_metrics, mm2_metrics, partition_metrics, sync_metrics
from monitoring.prometheus.mm2_names import RECORD_AGE, Labels, Mm2Metric
from monitoring.prometheus.partition_metrics import known_to_be_current
from monitoring.prometheus.text_format import Series, encoded, labelled

# Certainties of figures that are not lower bounds.
_UPPER_BOUNDS = ("counted", "at_most")


def scrape(*, now: datetime, partitions: bool, shard: Shard | None = None) -> bytes:
    with only_shard(shard):
        found = encoded(_of_flows(now, partitions))
    if shard is None or shard.is_first:
        found += encoded(_of_no_flow(now))
    return b"".join(found)


def all_series(now: datetime) -> Iterator[Series]:
    """Those of a scrape of everything, one series per topic."""
    yield from _of_flows(now, partitions=False)
    yield from _of_no_flow(now)


def _of_flows(now: datetime, partitions: bool) -> Iterator[Series]:
    """Reads the rows once per scrape, with a fixed number of queries."""
    flows = list(with_readiness(flows_with_lag(), now))
    labels = {flow.pk: Labels.of(flow) for flow in flows}
    yield from _lags(flows, labels, now)
    yield from _states(flows, labels)
    yield from _proofs(flows, labels, now)
    yield from _copied(labels)
    yield from _rates(labels)
    yield from sync_metrics.forecast_series(labels, now)
    yield from sync_metrics.cost_series(flows, labels, now)
    yield from sync_metrics.sync_series(labels, now)
    yield from engine_metrics.series(labels, now)
    yield from _topics(labels, now, by_partition=partitions)
    yield from _topic_rates(labels, now)
    yield _verified(labels, now)
    yield from _conflicts(labels, now)
    yield from mm2_metrics.series(labels, now, by_partition=partitions)
    yield from sync_metrics.replicated(labels, by_partition=partitions)
    if partitions:
        yield from partition_metrics.series(labels, now)


def _of_no_flow(now: datetime) -> Iterator[Series]:
    yield from _runners(now)
    yield engine_metrics.memory()
    yield from _others(now)
    yield sync_metrics.sweep_ages(now)


def _lags(flows: list[Any], labels: dict[int, Labels], now: datetime) -> Iterator[Series]:
    """An unknown figure has no series, and neither has 0 as a lower bound: 0 would mean that
    nothing is owed.

    `understudy_flow_owed_records` is also exported for a lower bound; its label says so.
    """
    lag = Series(
        "understudy_flow_offset_lag_records",
        "Records not yet replicated, if all partitions are known",
    )
    age = Series("understudy_flow_time_lag_seconds", "Age of the oldest record not replicated")
    old = Series("understudy_flow_figures_age_seconds", "Age of the flow's figures")
    owed = Series("understudy_flow_owed_records", "Known records not yet replicated, by certainty")
    unknown = Series("understudy_flow_unknown_partitions", "Partitions with an unknown lag")
    blocked = Series("understudy_flow_blocked_topics", "Topics that only a person can unblock")
    seen = Series("understudy_flow_source_seen_age_seconds", "Time since the source was last read")
    for flow in flows:
        key = labels[flow.pk].flow
        if flow.as_of is not None:
            old.add(key, (now - flow.as_of).total_seconds())
        account = flow.account.total if hasattr(flow, "account") else None
        if account is None:
            continue
        stated = account.as_of(milliseconds(now))
        if not account.unknown and (account.records or stated.certainty in _UPPER_BOUNDS):
            # At the last read of the source; `source_seen_age_seconds` is its age.
            lag.add(key, account.records)
        if stated.certainty != "unknown":
            owed.add(f"{key},{labelled(certainty=stated.certainty)}", stated.records)
        if stated.time_lag_ms or stated.time_lag_certainty in _UPPER_BOUNDS:
            age.add(key, stated.time_lag_ms / 1000)
        unknown.add(key, stated.unknown)
        blocked.add(key, flow.blocked)
        if stated.observed_at is not None:
            seen.add(key, (milliseconds(now) - stated.observed_at) / 1000)
    yield from (lag, age, old, owed, unknown, blocked, seen)


def _states(flows: list[Any], labels: dict[int, Labels]) -> Iterator[Series]:
    """One series per state, 1 for the current one: a sum counts the flows in a state."""
    for name, text, field, states in (
        ("understudy_flow_state", "Observed state", "observed_state", OBSERVED.names),
        ("understudy_flow_desired_state", "Desired state", "desired_state", DESIRED.names),
    ):
        family = Series(name, f"{text}: 1 for the current one")
        words = [(state, labelled(state=state)) for state in states]
        for flow in flows:
            head, holds = labels[flow.pk].flow, getattr(flow, field)
            for state, word in words:
                family.add(f"{head},{word}", 1 if state == holds else 0)
        yield family


def _proofs(flows: list[Any], labels: dict[int, Labels], now: datetime) -> Iterator[Series]:
    """A flow without a passed drill has no age: 0 would mean that one just passed."""
    score = Series("understudy_flow_readiness_score", "Readiness of the standby, 0 to 100")
    age = Series("understudy_flow_last_proven_age_seconds", "Time since a drill last passed")
    failed = Series("understudy_flow_last_drill_failed", "1 when the last drill failed")
    for pk, found in readiness_of(flows, now).items():
        score.add(labels[pk].flow, found.score)
    for flow in flows:
        if flow.proven_at is not None:
            age.add(labels[flow.pk].flow, (now - flow.proven_at).total_seconds())
        if flow.drilled_at is not None:
            failed.add(labels[flow.pk].flow, 1 if flow.drill_state == "failed" else 0)
    yield from (score, age, failed)


def _copied(labels: dict[int, Labels]) -> Iterator[Series]:
    """Sums over the kept jobs of a flow; pruning of old jobs looks like a counter reset."""
    records = Series("understudy_flow_records_total", "Records replicated", "counter")
    size = Series("understudy_flow_bytes_total", "Bytes replicated", "counter")
    totals = Job.objects.order_by().values_list("flow").annotate(Sum("records"), Sum("bytes"))
    for flow, copied, volume in totals:
        if flow in labels:
            records.add(labels[flow].flow, copied)
            size.add(labels[flow].flow, volume)
    yield from (records, size)


def _rates(labels: dict[int, Labels]) -> Iterator[Series]:
    behind = Series("understudy_flow_partitions_out_of_sync", "Partitions not in sync")
    records = Mm2Metric("record_rate", "Records a second, by flow")
    size = Mm2Metric("byte_rate", "Bytes a second, by flow")
    samples = LagSample.objects.filter(resolution=FINE.seconds)
    last = samples.order_by("-at").values_list("at", flat=True).first()
    # A flow that became stale afterwards has no rate.
    rows = samples.filter(at=last, flow__feed__stale_since=None) if last else samples.none()
    fields = ("flow", "records_per_second", "bytes_per_second", "out_of_sync")
    for flow, copied, volume, out_of_sync in rows.order_by().values_list(*fields):
        if flow not in labels:
            continue
        behind.add(labels[flow].flow, out_of_sync)
        if copied is not None:
            records.add(labels[flow], copied)
            size.add(labels[flow], volume)
    yield from (behind, *records.series(), *size.series())


def _topics(labels: dict[int, Labels], now: datetime, *, by_partition: bool) -> Iterator[Series]:
    """0 has a series only where the source was just read."""
    lag = Series("understudy_topic_offset_lag_records", "Records not yet replicated")
    age = Series("understudy_topic_time_lag_seconds", "Age of the oldest record")
    parts = Series("understudy_topic_partitions", "Partitions of the source topic")
    mm2 = Mm2Metric(*RECORD_AGE)
    rows = FlowTopic.objects.exclude(remote_topic=None).order_by()
    owed = Series("understudy_topic_owed_records", "Known records not yet replicated")
    unknown = Series("understudy_topic_unknown_partitions", "Partitions with an unknown lag")
    fields = ("flow", "topic", "remote_topic", "owed", "unknown_partitions", "time_lag_ms")
    is_current = known_to_be_current("observed_at", now)
    for flow, topic, remote, known, hidden, oldest, count, current in rows.values_list(
        *fields, "partitions", is_current
    ):
        if flow not in labels:
            continue
        key = f"{labels[flow].flow},{labelled(topic=topic)}"
        parts.add(key, count)
        owed.add(key, known)
        unknown.add(key, hidden)
        exact = current and not hidden
        if exact or (known and not hidden):
            lag.add(key, known)
        if oldest or (oldest is not None and exact):
            age.add(key, oldest / 1000)
            mm2.add(labels[flow], oldest, f",{labelled(topic=remote)}")
    yield from (lag, age, owed, unknown, parts)
    if not by_partition:
        yield from mm2.series()


def _verified(labels: dict[int, Labels], now: datetime) -> Series:
    """A topic with a partition that no comparison has verified has none."""
    age = Series(
        "understudy_topic_verified_age_seconds",
        "Age of the state up to which comparisons found all partitions the same",
    )
    for flow, topic, partitions, verified, oldest in oldest_by_topic():
        if flow in labels and oldest is not None and partitions == verified:
            key = f"{labels[flow].flow},{labelled(topic=topic)}"
            age.add(key, max(0.0, (now - oldest).total_seconds()))
    return age


def _conflicts(labels: dict[int, Labels], now: datetime) -> Iterator[Series]:
    """Flows without a report have none."""
    age = Series(
        "understudy_flow_conflict_report_age_seconds",
        "Age of the last conflict report, by when the ends of both sides were read",
    )
    keys = Series(
        "understudy_flow_conflicting_keys",
        "Keys that producers wrote on both sides within the window of the last conflict report",
    )
    differing = Series(
        "understudy_flow_conflicting_keys_differing",
        "Those of them whose values differ on both sides",
    )
    for report in newest_reports():
        if report.flow_id in labels:
            keys.add(labels[report.flow_id].flow, report.keys or 0)
            differing.add(labels[report.flow_id].flow, report.differing or 0)
            since = report.as_of or report.requested_at
            age.add(labels[report.flow_id].flow, (now - since).total_seconds())
    yield from (keys, differing, age)


def _topic_rates(labels: dict[int, Labels], now: datetime) -> Iterator[Series]:
    """Of flows with fresh figures; a topic with an unknown minute has none."""
    records = Series("understudy_topic_records_per_second", "Mean of the last five minutes")
    size = Series("understudy_topic_bytes_per_second", "The same in bytes, as sent to the target")
    rows = FlowTopic.objects.filter(
        flow__as_of__gte=now - OLD_AFTER, records_per_second__isnull=False
    )
    fields = ("flow", "topic", "records_per_second", "bytes_per_second")
    for flow, topic, count, volume in rows.order_by().values_list(*fields):
        if flow in labels:
            key = f"{labels[flow].flow},{labelled(topic=topic)}"
            records.add(key, count)
            size.add(key, volume)
    yield from (records, size)


def _runners(now: datetime) -> Iterator[Series]:
    up = Series("understudy_runner_up", "1 if the runner is ready and its last report is fresh")
    slots = Series("understudy_runner_slots", "Slices that the runner can run at once")
    used = Series("understudy_runner_slots_used", "Slots in use")
    memory = Series("understudy_runner_memory_bytes", "Resident memory of the runner")
    seen = Series("understudy_runner_seen_age_seconds", "Time since the last report of the runner")
    load = Series(
        "understudy_runner_load_ratio", "Load relative to an even share of the runner's pool"
    )
    ratios = pools.load_ratios(now=now)
    for runner in Runner.objects.all():
        key = labelled(runner=runner.name, host=runner.host)
        if (ratio := ratios.get(runner.name)) is not None:
            load.add(f"{key},{labelled(pool=runner.pool)}", ratio)
        up.add(key, 1 if runner.health(now).is_healthy else 0)
        slots.add(key, runner.slots)
        if runner.slots_used is not None:
            used.add(key, runner.slots_used)
        if runner.rss_bytes is not None:
            memory.add(key, runner.rss_bytes)
        if runner.seen_at is not None:
            seen.add(key, (now - runner.seen_at).total_seconds())
    yield from (up, slots, used, memory, seen, load)


def _others(now: datetime) -> Iterator[Series]:
    reach = Series("understudy_cluster_reachable", "1 if the last check succeeded")
    checked = Cluster.objects.exclude(reachable=None)
    for alias, reachable in checked.values_list("alias", "reachable"):
        reach.add(labelled(cluster=alias), 1 if reachable else 0)
    seen = Series(
        "understudy_process_seen_age_seconds", "Time since the last report of the process"
    )
    for row in Sighting.objects.all():
        age = (now - row.seen_at).total_seconds()
        seen.add(labelled(kind=row.kind, name=row.name), age)
    firing = Series("understudy_alerts_firing", "Firing alerts")
    counts = Alert.objects.filter(state=AlertState.FIRING).order_by().values_list("severity")
    known = dict(counts.annotate(Count("pk")))
    for severity in Severity.values:
        firing.add(labelled(severity=severity), known.get(severity, 0))
    yield from (reach, seen, firing)
