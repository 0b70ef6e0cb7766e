"""Samples of topics and partitions once a minute, their roll-up to hours, and their pruning."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import F, Max, Model, Q, Sum

from mirrors.domain.formatting import OLD_AFTER
from mirrors.models import FlowPartition, FlowTopic
from monitoring.domain.history import (
    MAX_PARTITIONS,
    MAX_TOPICS,
    TOPIC_HOUR,
    TOPIC_MINUTE,
    TOPIC_RESOLUTIONS,
)
from monitoring.forecasts import usage
from monitoring.history import topic_rates
from monitoring.history.pruning import delete_before
from monitoring.history.row_updates import update_rows
from monitoring.models import FullStep, PartitionSample, TopicSample

_BATCH = 500
# Hours to aggregate in one call; after a long outage the rest follows in later calls.
_HOURS = 24


def collect(*, now: datetime) -> int:
    """Write the samples of the minute that has begun; returns the number of topics.

    A topic with stale figures gets no sample. Counts that a minute leaves out, since more topics
    moved than a minute may have, are in the topic's next sample.
    """
    at = TOPIC_MINUTE.slot(now)
    taken = _count(TopicSample, at)
    if not taken:
        topic_rates.update(now=now)
    moved = ~Q(records=F("sampled_records")) | ~Q(bytes=F("sampled_bytes"))
    rows = FlowTopic.objects.filter(
        Q(sampled_at=None) | Q(sampled_at__lt=at),
        moved | Q(owed__gt=0) | Q(unknown_partitions__gt=0),
        as_of__gte=now - OLD_AFTER,
    ).exclude(state="skipped")
    room = max(0, MAX_TOPICS - taken)
    topics = list(rows.order_by("-owed", "-records", "pk")[:room])
    samples = [
        TopicSample(
            flow_id=row.flow_id,
            topic=row.topic,
            resolution=TOPIC_MINUTE.seconds,
            at=at,
            owed=row.owed,
            time_lag_ms=row.time_lag_ms,
            unknown_partitions=row.unknown_partitions,
            records=row.records - row.sampled_records,
            bytes=row.bytes - row.sampled_bytes,
        )
        for row in topics
    ]
    for row in topics:
        row.sampled_records, row.sampled_bytes, row.sampled_at = row.records, row.bytes, at
    with transaction.atomic():
        TopicSample.objects.bulk_create(samples, batch_size=_BATCH, ignore_conflicts=True)
        update_rows(topics, ("sampled_records", "sampled_bytes", "sampled_at"))
        usage.add_minute(at, samples)
        partitions = _partitions(topics, at, now)
        PartitionSample.objects.bulk_create(partitions, batch_size=_BATCH, ignore_conflicts=True)
        for of_topics, count, most in (
            (True, taken + len(samples), MAX_TOPICS),
            (False, _count(PartitionSample, at), MAX_PARTITIONS),
        ):
            if count >= most:
                FullStep.objects.get_or_create(
                    of_topics=of_topics, resolution=TOPIC_MINUTE.seconds, at=at
                )
    return len(samples)


def _count(model: type[Model], at: datetime) -> int:
    """Samples of this minute so far: it is collected several times."""
    return model._default_manager.filter(resolution=TOPIC_MINUTE.seconds, at=at).count()


def _partitions(topics: Iterable[FlowTopic], at: datetime, now: datetime) -> list[PartitionSample]:
    """Partitions of these topics that are not in sync, those that owe the most first."""
    flows = {row.flow_id for row in topics if row.owed or row.unknown_partitions}
    rows = FlowPartition.objects.filter(flow__in=flows, flow__as_of__gte=now - OLD_AFTER)
    room = max(0, MAX_PARTITIONS - _count(PartitionSample, at))
    fields = ("flow_id", "topic", "partition", "offset_lag", "time_lag_ms")
    unsynced = rows.exclude(state__in=("in_sync", "skipped")).order_by(
        F("offset_lag").desc(nulls_first=True), "pk"
    )
    return [
        PartitionSample(
            flow_id=flow,
            topic=topic,
            partition=number,
            resolution=TOPIC_MINUTE.seconds,
            at=at,
            owed=owed,
            time_lag_ms=oldest,
        )
        for flow, topic, number, owed, oldest in unsynced.values_list(*fields)[:room]
    ]


def roll_up(*, now: datetime) -> int:
    """Aggregate finished hours; returns the number of rows written."""
    end = TOPIC_HOUR.slot(now)
    last = TopicSample.objects.filter(resolution=TOPIC_HOUR.seconds).order_by("-at").first()
    start = last.at + TOPIC_HOUR.step if last else end - TOPIC_MINUTE.keep
    written = 0
    for _ in range(_HOURS):
        fine = TopicSample.objects.filter(
            resolution=TOPIC_MINUTE.seconds, at__gte=start, at__lt=end
        )
        first = fine.order_by("at").first()
        if first is None:
            break
        at = TOPIC_HOUR.slot(first.at)
        written += _roll_up_hour(at)
        start = at + TOPIC_HOUR.step
    return written


def _roll_up_hour(at: datetime) -> int:
    hour = {"resolution": TOPIC_MINUTE.seconds, "at__gte": at, "at__lt": at + TOPIC_HOUR.step}
    topics = TopicSample.objects.filter(**hour).order_by().values("flow", "topic")
    worst = topics.annotate(
        Max("owed"), Max("time_lag_ms"), Max("unknown_partitions"), Sum("records"), Sum("bytes")
    )
    parts = PartitionSample.objects.filter(**hour).order_by().values("flow", "topic", "partition")
    step = {"resolution": TOPIC_HOUR.seconds, "at": at}
    rows = [
        TopicSample(
            flow_id=row["flow"],
            topic=row["topic"],
            owed=row["owed__max"],
            time_lag_ms=row["time_lag_ms__max"],
            unknown_partitions=row["unknown_partitions__max"],
            records=row["records__sum"],
            bytes=row["bytes__sum"],
            **step,
        )
        for row in worst
    ]
    worst_parts = [
        PartitionSample(
            flow_id=row["flow"],
            topic=row["topic"],
            partition=row["partition"],
            owed=row["owed__max"],
            time_lag_ms=row["time_lag_ms__max"],
            **step,
        )
        for row in parts.annotate(Max("owed"), Max("time_lag_ms"))
    ]
    with transaction.atomic():
        TopicSample.objects.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)
        PartitionSample.objects.bulk_create(worst_parts, batch_size=_BATCH, ignore_conflicts=True)
        for of_topics in set(FullStep.objects.filter(**hour).values_list("of_topics", flat=True)):
            FullStep.objects.get_or_create(
                of_topics=of_topics, resolution=TOPIC_HOUR.seconds, at=at
            )
    return len(rows)


def prune(*, now: datetime) -> int:
    """Delete old samples and months; returns their number."""
    return usage.prune(now=now) + sum(
        delete_before(model, one.seconds, now - one.keep)
        for one in TOPIC_RESOLUTIONS
        for model in (TopicSample, PartitionSample, FullStep)
    )
