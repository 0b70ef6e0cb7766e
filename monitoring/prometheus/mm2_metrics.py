"""Metrics with the names of MirrorMaker 2 and Kafka Connect: latencies, ages, failed records.

Each carries the labels of the usual exporter of JMX. An unknown figure has no series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.db.models import Avg, Count, F, Max, Min

from mirrors.domain.flows.latency import Latency
from mirrors.domain.formatting import OLD_AFTER
from mirrors.domain.sync.tasks import CHECKPOINTS
from mirrors.models import DutyRun, Flow, FlowPartition, FlowTopic, Gap, Job
from monitoring.prometheus.text_format import MM2, Labels, Series, labelled

CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
TASK_ERROR = "kafka_connect_task_error_"
_REJECTED = ("refused", "damaged")
_LATELY_S = 3600


def series(labels: Mapping[int, Labels], now: datetime, *, by_partition: bool) -> Iterator[Series]:
    yield from _latencies(labels, now, by_partition=by_partition)
    yield from _ages(labels, by_partition=by_partition)
    yield from _checkpoints(labels, now)
    yield from _errors(labels)


def _family(name: str, help_text: str) -> tuple[Series, ...]:
    """The mean under the plain name too, as boards of MirrorMaker 2 expect both."""
    ends = ("", "_avg", "_min", "_max")
    return tuple(Series(f"{name}{end}", help_text) for end in ends)


def _add(family: tuple[Series, ...], key: str, mean: float, low: float, high: float) -> None:
    for one, value in zip(family, (mean, mean, low, high), strict=True):
        one.add(key, value)


def _latencies(
    labels: Mapping[int, Labels], now: datetime, *, by_partition: bool
) -> Iterator[Series]:
    """Of flows with fresh figures; a topic to which nothing was committed has none."""
    family = _family(
        f"{MM2}replication_latency_ms", "From record timestamp to commit, in the last minute"
    )
    rows = FlowPartition.objects if by_partition else FlowTopic.objects
    fresh = rows.filter(
        flow__as_of__gte=now - OLD_AFTER, latency__isnull=False, remote_topic__isnull=False
    )
    number = ("partition",) if by_partition else ()
    for flow, remote, found, *rest in fresh.order_by().values_list(
        "flow", "remote_topic", "latency", *number
    ):
        if flow not in labels:
            continue
        latency = Latency(*found)
        key = f"{labels[flow].mm2},{labelled(topic=remote)}"
        key += f',partition="{rest[0]}"' if rest else ""
        _add(family, key, latency.mean_ms, latency.min_ms, latency.max_ms)
    yield from family


def _ages(labels: Mapping[int, Labels], *, by_partition: bool) -> Iterator[Series]:
    """Age of the oldest record not replicated: lowest, mean and highest of a topic's partitions.

    The plain series is that of each partition if asked; `metrics` has that of each topic.
    """
    plain, *rest = _family(f"{MM2}record_age_ms", "Age of the oldest record not replicated")
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
            key = f"{labels[flow].mm2},{labelled(topic=remote)}"
            for one, value in zip(rest, (mean, low, high), strict=True):
                one.add(key, value)
    yield from rest
    if by_partition:
        fields = ("flow", "remote_topic", "partition", "time_lag_ms")
        for flow, remote, number, age in rows.filter(time_lag_ms__isnull=False).values_list(
            *fields
        ):
            if flow in labels:
                head = f"{labels[flow].mm2},{labelled(topic=remote)}"
                plain.add(f'{head},partition="{number}"', age)
        yield plain


def _checkpoints(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """From the read of the groups' offsets to the acknowledged checkpoints, of the last hour."""
    family = _family(CHECKPOINT, "Duration of the sync task checkpoints, in the last hour")
    since = int(now.timestamp()) - _LATELY_S
    runs = DutyRun.objects.filter(duty=CHECKPOINTS.name, error="", ended_at__isnull=False)
    took = F("ended_at") - F("started_at")
    rows = runs.filter(slot__gte=since).order_by().values_list("flow")
    for flow, mean, low, high in rows.annotate(mean=Avg(took), low=Min(took), high=Max(took)):
        if flow in labels:
            ms = (value.total_seconds() * 1000 for value in (mean, low, high))
            _add(family, labels[flow].mm2, *ms)
    yield from family


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
    names = {flow.pk: flow.name for flow in Flow.objects.select_related("source", "target")}
    for flow, key in labels.items():
        connector = labelled(connector=f"{names.get(flow, '')}.MirrorSourceConnector", task="0")
        for one, counts in ((failures, found), (skipped, accepted), (errors, failed)):
            one.add(f"{key.mm2},{connector}", counts.get(flow, 0))
    yield from (failures, skipped, errors)
