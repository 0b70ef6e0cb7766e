"""Metrics with the names of MirrorMaker 2 and Kafka Connect: latencies, ages, failed records.

Each carries the labels of the usual exporter of JMX. An unknown figure has no series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from django.db.models import Avg, Count, F, Max, Min

from mirrors.domain.flows.latency import Latency
from mirrors.domain.formatting import OLD_AFTER
from mirrors.domain.sync.tasks import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowPartition, FlowTopic, Gap, Job
from monitoring.prometheus.mm2_names import (
    CHECKPOINT,
    RECORD_AGE,
    REPLICATION_LATENCY,
    SOURCE,
    Labels,
    Mm2Family,
)
from monitoring.prometheus.text_format import Series, labelled

TASK_ERROR = "kafka_connect_task_error_"
_REJECTED = ("refused", "damaged")
_LATELY_S = 3600


def series(labels: Mapping[int, Labels], now: datetime, *, by_partition: bool) -> Iterator[Series]:
    """`partition_metrics` has latency and age of each partition."""
    if not by_partition:
        yield from _latencies(labels, now)
    yield from _ages(labels)
    yield from _checkpoints(labels, now)
    yield from _errors(labels)


def _latencies(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """Of flows with fresh figures; a topic to which nothing was committed has none."""
    family = Mm2Family(*REPLICATION_LATENCY)
    fresh = FlowTopic.objects.filter(
        flow__as_of__gte=now - OLD_AFTER, latency__isnull=False, remote_topic__isnull=False
    )
    for flow, remote, found in fresh.order_by().values_list("flow", "remote_topic", "latency"):
        if flow in labels:
            latency = Latency(*found)
            values = (latency.mean_ms, latency.min_ms, latency.max_ms)
            family.add(labels[flow], values, f",{labelled(topic=remote)}")
    yield from family.series()


def _ages(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Age of the oldest record not replicated: lowest, mean and highest of a topic's partitions.

    The plain series is that of the topic, in `metrics`, or that of each partition.
    """
    _, *rest = Mm2Family(*RECORD_AGE).metrics
    rows = FlowPartition.objects.exclude(remote_topic="").order_by()
    topics = rows.values_list("flow", "remote_topic").annotate(
        mean=Avg("time_lag_ms"),
        low=Min("time_lag_ms"),
        high=Max("time_lag_ms"),
        every=Count("pk"),
        known=Count("time_lag_ms"),
    )
    for flow, remote, mean, low, high, every, known in topics:
        # With an unknown partition none of them would be that of the topic.
        if flow in labels and every == known:
            for one, value in zip(rest, (mean, low, high), strict=True):
                one.add(labels[flow], value, f",{labelled(topic=remote)}")
    for one in rest:
        yield from one.series()


def _checkpoints(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """From the read of the groups' offsets to the acknowledged checkpoints, of the last hour."""
    help_text = "Duration of the sync task checkpoints, in the last hour"
    family = Mm2Family("checkpoint_latency_ms", help_text, CHECKPOINT)
    since = int(now.timestamp()) - _LATELY_S
    # By flow, so that the database reads the hour of each from the index.
    runs = DutyRun.objects.filter(
        flow__in=Flow.objects.values("pk"),
        duty=CHECKPOINTS.name,
        error="",
        ended_at__isnull=False,
    )
    took = F("ended_at") - F("started_at")
    rows = runs.filter(slot__gte=since).order_by().values_list("flow")
    for flow, mean, low, high in rows.annotate(mean=Avg(took), low=Min(took), high=Max(took)):
        if flow in labels:
            family.add(labels[flow], (_ms(mean), _ms(low), _ms(high)))
    yield from family.series()


def _errors(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Rejected records and damaged batches; those skipped by decision; failed jobs.

    Each counts rows that are kept: when old ones are deleted, `rate()` sees a counter reset.
    """
    failures = Series(
        f"{TASK_ERROR}total_record_failures", "Records or batches that could not be replicated"
    )
    skipped = Series(f"{TASK_ERROR}total_records_skipped", "Of these, skipped by a decision")
    errors = Series(f"{TASK_ERROR}total_errors_logged", "Jobs that ended with an error")
    rejected = Gap.objects.filter(kind__in=_REJECTED).order_by()
    found = dict(rejected.values_list("flow").annotate(Count("pk")))
    accepted = dict(rejected.filter(state="accepted").values_list("flow").annotate(Count("pk")))
    jobs = Job.objects.filter(state="failed").order_by().values_list("flow").annotate(Count("pk"))
    failed = dict(jobs)
    for flow, key in labels.items():
        for one, counts in ((failures, found), (skipped, accepted), (errors, failed)):
            one.add(f"{key.mm2},{key.connector(SOURCE)}", counts.get(flow, 0))
    yield from (failures, skipped, errors)


def _ms(took: timedelta) -> float:
    return took.total_seconds() * 1000
