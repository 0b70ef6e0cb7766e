"""The collector: one row per interval, aggregated with age, pruned, none for stale figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.models import Flow, FlowPartition, Job, Sighting
from monitoring import tasks
from monitoring.domain.history import FINE, HOUR, MINUTE
from monitoring.history import collector
from monitoring.models import Feed, LagSample
from tests.pages import world

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(as_of=NOON)
    world.topic(flow, offset_lag=40, time_lag_ms=3_000)
    world.partition(flow, state="lagging", as_of=NOON)
    world.partition(flow, number=1, as_of=NOON)
    world.job(flow, records=0, bytes=0, as_of=NOON)
    return flow


def tick(flow: Flow, seconds: int, **figures: int) -> datetime:
    """The reconciler wrote a report of this moment; the collector comes by."""
    now = NOON + timedelta(seconds=seconds)
    Flow.objects.filter(pk=flow.pk).update(as_of=now)
    FlowPartition.objects.filter(flow=flow).update(as_of=now)
    records = figures.pop("records", seconds * 5)
    Job.objects.filter(flow=flow).update(as_of=now, records=records, bytes=records * 100)
    if figures:
        world.owes(flow, **figures)
    collector.collect(now=now)
    return now


def test_a_flow_gets_one_sample_a_step_however_often_the_collector_comes(flow: Flow) -> None:
    tick(flow, 0)
    tick(flow, 3)
    tick(flow, 10)
    first, second = LagSample.objects.filter(flow=flow, resolution=FINE.seconds)
    assert (first.offset_lag, first.time_lag_ms, first.out_of_sync) == (40, 3_000, 1)
    assert first.records_per_second is None
    assert second.at == NOON + timedelta(seconds=10)
    assert second.records_per_second == pytest.approx(5.0)
    assert second.bytes_per_second == pytest.approx(500.0)


def test_old_figures_write_nothing_and_the_feed_says_since_when(flow: Flow) -> None:
    tick(flow, 0)
    collector.collect(now=NOON + timedelta(seconds=40))
    collector.collect(now=NOON + timedelta(seconds=50))
    assert LagSample.objects.count() == 1
    assert Feed.objects.get().stale_since == NOON
    tick(flow, 60)
    assert LagSample.objects.count() == 2
    assert Feed.objects.get().stale_since is None


def test_a_report_without_the_source_s_ends_is_old_as_they_are(flow: Flow) -> None:
    tick(flow, 0)
    later = NOON + timedelta(seconds=50)
    Flow.objects.update(as_of=later)  # the runner lives, its source does not answer
    collector.collect(now=later)
    assert LagSample.objects.count() == 1
    assert Feed.objects.get().stale_since == NOON


def test_the_feed_knows_since_when_a_flow_stands_while_its_lag_grows(flow: Flow) -> None:
    tick(flow, 0, records=100, offset_lag=40)
    tick(flow, 10, records=150, offset_lag=50)
    tick(flow, 20, records=150, offset_lag=90)
    feed = Feed.objects.get()
    assert feed.moved_at == NOON + timedelta(seconds=10)
    assert feed.lag_when_moved == 50
    tick(flow, 30, records=150, offset_lag=0)
    assert Feed.objects.get().moved_at == NOON + timedelta(seconds=30)


def test_a_minute_and_an_hour_hold_the_worst_of_their_samples(flow: Flow) -> None:
    for seconds in range(0, 130, 10):
        now = tick(flow, seconds, time_lag_ms=60_000 if seconds == 40 else 1_000)
    assert collector.roll_up(now=now) == 2
    assert collector.roll_up(now=now) == 0
    peaks = LagSample.objects.filter(resolution=MINUTE.seconds)
    assert [row.time_lag_ms for row in peaks] == [60_000, 1_000]
    tick(flow, 3_600)
    collector.roll_up(now=NOON + timedelta(seconds=3_660))
    [hour] = LagSample.objects.filter(resolution=HOUR.seconds)
    assert (hour.at, hour.time_lag_ms) == (NOON, 60_000)


def test_each_resolution_is_kept_as_long_as_promised_and_no_longer(flow: Flow) -> None:
    for one in (FINE, MINUTE, HOUR):
        for age in (one.keep - timedelta(seconds=5), one.keep + timedelta(seconds=5)):
            LagSample.objects.create(
                flow=flow, resolution=one.seconds, at=NOON - age, out_of_sync=0
            )
    assert collector.prune(now=NOON) == 3
    assert LagSample.objects.count() == 3


def test_the_watcher_itself_is_seen_and_old_figures_do_not_stop_it(flow: Flow) -> None:
    began = timezone.now()
    Flow.objects.update(as_of=began - timedelta(hours=1))
    FlowPartition.objects.update(as_of=began - timedelta(hours=1))
    tasks.collect()
    assert Sighting.objects.get(kind="watcher").seen_at >= began
    assert LagSample.objects.count() == 0
    assert Feed.objects.get().stale_since == began - timedelta(hours=1)


def test_a_sweep_costs_the_same_queries_for_many_flows_as_for_one(flow: Flow) -> None:
    def cost(seconds: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            collector.collect(now=NOON + timedelta(seconds=seconds))
        return len(queries)

    collector.collect(now=NOON)
    few = cost(1)
    for _ in range(12):
        world.topic(world.flow(as_of=NOON))
    collector.collect(now=NOON + timedelta(seconds=2))
    assert cost(3) == few
    assert LagSample.objects.count() == 13
