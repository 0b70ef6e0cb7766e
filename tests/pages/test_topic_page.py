"""The page of one topic: its charts, its groups, and what is not known."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Flow, FlowTopic, GroupOffset
from monitoring.domain.history import TOPIC_MINUTE
from monitoring.history.topic_series import TOPIC_RANGES, read_series
from monitoring.models import FullStep, LagSample, PartitionSample, TopicSample
from tests.pages import world

HOUR = TOPIC_RANGES["1h"]


@pytest.fixture
def flow(db: None, monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow with reports of the last 30 minutes, whose topic owed records 10 minutes ago."""
    # No test may cross the end of the minute that has the last sample.
    moment = TOPIC_MINUTE.slot(timezone.now()) + timedelta(seconds=30)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    world.topic(flow, offset_lag=40, time_lag_ms=61_000, partitions=2)
    world.partition(flow, state="lagging", offset_lag=40, time_lag_ms=61_000)
    world.partition(flow, number=1)
    FlowTopic.objects.update(job=1, records=9_000, bytes=4_100_000)
    now = TOPIC_MINUTE.slot(timezone.now())
    for ago in range(30):
        at = now - timedelta(minutes=ago)
        LagSample.objects.create(
            flow=flow, resolution=60, at=at, offset_lag=0, time_lag_ms=0, out_of_sync=0
        )
    for ago, owed in ((29, 5), (10, 70), (0, 40)):
        at = now - timedelta(minutes=ago)
        TopicSample.objects.create(
            flow=flow, topic="orders", resolution=60, at=at, owed=owed, time_lag_ms=owed * 1_000,
            records=100, bytes=2_000,
        )  # fmt: skip
        PartitionSample.objects.create(
            flow=flow, topic="orders", partition=0, resolution=60, at=at, owed=owed,
            time_lag_ms=owed * 1_000,
        )  # fmt: skip
    return flow


def test_a_step_without_a_sample_is_zero_while_the_flow_reported_and_unknown_otherwise(
    flow: Flow,
) -> None:
    series = read_series(flow=flow, topic="orders", over=HOUR, now=timezone.now())
    owed = series.topic["owed"]
    assert len(owed) == 60
    assert owed[:30] == [None] * 30
    assert owed[30:] == [5, *[0] * 18, 70, *[0] * 9, 40]
    assert sum(value or 0 for value in series.topic["bytes"]) == 6_000
    assert set(series.partitions) == {0}


def full(of_topics: bool) -> None:
    """Each minute with a sample has as many as it may have."""
    model = TopicSample if of_topics else PartitionSample
    for at in set(model.objects.filter(resolution=60).values_list("at", flat=True)):
        FullStep.objects.create(of_topics=of_topics, resolution=60, at=at)


def test_a_minute_as_full_as_it_may_be_says_nothing_of_other_topics(flow: Flow) -> None:
    full(of_topics=True)
    series = read_series(flow=flow, topic="payments", over=HOUR, now=timezone.now())
    assert series.topic["owed"][30:] == [None, *[0] * 18, None, *[0] * 9, None]


def test_a_partition_that_a_full_minute_left_out_is_unknown(flow: Flow) -> None:
    full(of_topics=False)
    world.partition(flow, number=2, state="lagging", offset_lag=7, time_lag_ms=50_000)
    series = read_series(flow=flow, topic="orders", over=HOUR, now=timezone.now())
    assert series.partitions[0]["owed"][-1] == 40
    assert series.partitions[2]["owed"][-1] is None
    assert series.partitions[2]["owed"][-2] == 0


def test_a_day_has_the_worst_minute_and_the_sum(flow: Flow) -> None:
    series = read_series(flow=flow, topic="orders", over=TOPIC_RANGES["24h"], now=timezone.now())
    known = [value for value in series.topic["owed"] if value is not None]
    assert max(known) == 70
    assert sum(value or 0 for value in series.topic["records"]) == 300


def test_the_page_has_state_charts_and_groups(viewer: Client, flow: Flow) -> None:
    GroupOffset.objects.create(
        flow=flow, group="billing", topic="orders", partition=0, sync_state="in_sync",
        source_lag=3, as_of=timezone.now(),
    )  # fmt: skip
    GroupOffset.objects.create(
        flow=flow, group="other", topic="payments", partition=0, sync_state="in_sync",
        as_of=timezone.now(),
    )  # fmt: skip
    text = viewer.get(f"/flows/{flow.pk}/topics/orders/").content.decode()
    assert "9,000 records, 4.1 MB" in text
    assert "latest step <b>40</b>, peak <b>70</b>" in text
    assert "total <b>6.0 kB</b>" in text
    assert "billing" in text
    assert "other" not in text
    assert (
        f"/flows/{flow.pk}/topics/orders/"
        in viewer.get(f"/flows/{flow.pk}/partitions/").content.decode()
    )


def test_rest_has_the_samples_of_one_topic(viewer: Client, flow: Flow) -> None:
    rows = viewer.get(f"/api/v1/flows/{flow.pk}/topic-samples/?topic=orders").json()["results"]
    assert [(row["owed"], row["bytes"]) for row in rows] == [(40, 2_000), (70, 2_000), (5, 2_000)]
    rows = viewer.get(f"/api/v1/flows/{flow.pk}/partition-samples/?topic=none").json()["results"]
    assert rows == []
    [topic] = viewer.get(f"/api/v1/flows/{flow.pk}/topics/").json()["results"]
    assert (topic["records"], topic["bytes"]) == (9_000, 4_100_000)
