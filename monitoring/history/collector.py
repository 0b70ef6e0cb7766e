"""Takes samples of the figures that runners reported, aggregates and prunes them.

It makes no calls to Kafka. A flow with stale figures gets no sample; its feed says since when.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Avg, Count, Max, Q

from mirrors.models import Flow, FlowPartition, HeartbeatState, Job
from mirrors.models.account import totals_by_flow
from monitoring.domain.history import (
    FINE,
    HOUR,
    MINUTE,
    RESOLUTIONS,
    Figures,
    JobCounters,
    Resolution,
    figures_as_of,
    is_fresh,
    measure,
)
from monitoring.history.pruning import delete_before
from monitoring.models import Feed, LagSample

_BATCH = 500
# Steps to aggregate in one call; after a long outage the rest follows in later calls.
_STEPS = 120
_FEED_FIELDS = (
    "as_of",
    "job",
    "records",
    "bytes",
    "stale_since",
    "moved_at",
    "lag_when_moved",
)


def collect(*, now: datetime) -> int:
    """Write one sample for each flow with fresh figures; returns their number."""
    feeds = {feed.flow_id: feed for feed in Feed.objects.order_by()}
    samples = []
    for flow, figures in _figures():
        if (feed := feeds.get(flow)) is None:
            feed = feeds[flow] = Feed(flow_id=flow)
        sample = measure(figures, _counted(feed), now)
        _update_feed(feed, figures, now)
        if sample is not None:
            samples.append(LagSample(flow_id=flow, resolution=FINE.seconds, **vars(sample)))
    LagSample.objects.bulk_create(samples, batch_size=_BATCH, ignore_conflicts=True)
    Feed.objects.bulk_create(
        feeds.values(),
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["flow"],
        update_fields=_FEED_FIELDS,
    )
    return len(samples)


def roll_up(*, now: datetime) -> int:
    """Aggregate finished steps to coarser ones; returns the number of rows written."""
    return _roll_up(FINE, MINUTE, now) + _roll_up(MINUTE, HOUR, now)


def prune(*, now: datetime) -> int:
    """Delete old samples; returns their number."""
    return sum(delete_before(LagSample, one.seconds, now - one.keep) for one in RESOLUTIONS)


def _partitions() -> dict[int, tuple[datetime | None, int]]:
    """By flow: when the source's end offsets were last read, and how many partitions lag."""
    rows = FlowPartition.objects.order_by().values_list("flow")
    found = rows.annotate(ends=Max("as_of"), behind=Count("pk", filter=~Q(state="in_sync")))
    return {flow: (ends, behind) for flow, ends, behind in found}


def _figures() -> Iterator[tuple[int, Figures]]:
    """Of every flow, with its key."""
    accounts, counted, parts = totals_by_flow(), _counters(), _partitions()
    beats = {
        flow: (latency_ms, seen_at)
        for flow, latency_ms, seen_at in HeartbeatState.objects.order_by().values_list(
            "flow", "latency_ms", "seen_at"
        )
    }
    for flow, reported in Flow.objects.order_by("pk").values_list("pk", "as_of"):
        ends, out_of_sync = parts.get(flow, (None, 0))
        latency_ms, heartbeat_at = beats.get(flow, (None, None))
        yield (
            flow,
            Figures(
                as_of=figures_as_of(reported, ends),
                counted=counted.get(flow),
                account=accounts.get(flow),
                out_of_sync=out_of_sync,
                latency_ms=latency_ms,
                heartbeat_at=heartbeat_at,
            ),
        )


def _counters() -> dict[int, JobCounters]:
    """By flow, of its running job, once that has reported."""
    rows = Job.objects.filter(ended_at=None, as_of__isnull=False)
    columns = ("flow", "as_of", "pk", "records", "bytes")
    return {
        flow: JobCounters(as_of=as_of, job=job, records=records, bytes=size)
        for flow, as_of, job, records, size in rows.values_list(*columns)
    }


def _counted(feed: Feed) -> JobCounters | None:
    if feed.as_of is None or feed.job is None:
        return None
    return JobCounters(as_of=feed.as_of, job=feed.job, records=feed.records, bytes=feed.bytes)


def _update_feed(feed: Feed, figures: Figures, now: datetime) -> None:
    """Update the feed with the figures just read."""
    if not is_fresh(figures.as_of, now):
        feed.stale_since = feed.stale_since or figures.as_of or now
        return
    feed.stale_since = None
    owed = figures.account
    moved = owed is not None and not owed.records and not owed.unknown
    if figures.counted is not None:
        copied = figures.counted
        moved = moved or feed.job != copied.job or copied.records > feed.records
        feed.as_of, feed.job = copied.as_of, copied.job
        feed.records, feed.bytes = copied.records, copied.bytes
    if moved or feed.moved_at is None:
        feed.moved_at = now
        feed.lag_when_moved = None if owed is None else owed.records


def _roll_up(fine: Resolution, coarse: Resolution, now: datetime) -> int:
    """Aggregate from the last coarse step on; steps without samples are skipped."""
    end = coarse.slot(now)
    last = LagSample.objects.filter(resolution=coarse.seconds).order_by("-at").first()
    start = last.at + coarse.step if last else now - fine.keep
    written = 0
    for _ in range(_STEPS):
        samples = LagSample.objects.filter(resolution=fine.seconds, at__gte=start, at__lt=end)
        first = samples.order_by("at").first()
        if first is None:
            break
        at = coarse.slot(first.at)
        written += _roll_up_step(fine, coarse, at)
        start = at + coarse.step
    return written


def _roll_up_step(fine: Resolution, coarse: Resolution, at: datetime) -> int:
    ended = at + coarse.step
    samples = LagSample.objects.filter(resolution=fine.seconds, at__gte=at, at__lt=ended)
    merged = (
        samples.order_by()
        .values("flow")
        .annotate(
            Max("offset_lag"),
            Max("time_lag_ms"),
            Avg("records_per_second"),
            Avg("bytes_per_second"),
            Max("out_of_sync"),
            Max("unknown_partitions"),
            Max("latency_ms"),
            Max("heartbeat_age_ms"),
        )
    )
    rows = [
        LagSample(
            flow_id=row["flow"],
            resolution=coarse.seconds,
            at=at,
            offset_lag=row["offset_lag__max"],
            time_lag_ms=row["time_lag_ms__max"],
            records_per_second=row["records_per_second__avg"],
            bytes_per_second=row["bytes_per_second__avg"],
            out_of_sync=row["out_of_sync__max"],
            unknown_partitions=row["unknown_partitions__max"],
            latency_ms=row["latency_ms__max"],
            heartbeat_age_ms=row["heartbeat_age_ms__max"],
        )
        for row in merged
    ]
    LagSample.objects.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)
    return len(rows)
