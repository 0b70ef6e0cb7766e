"""Rates of topics: means of the last five finished minutes, unknown where a minute is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from mirrors.models import Flow, FlowTopic
from monitoring.domain.history import FINE, RATE_MINUTES, mean_rate
from monitoring.history import topic_rates
from monitoring.models import FullStep, LagSample, TopicSample
from tests.domain.cases import laws
from tests.pages import world

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
# The oldest minute of a window: it is not averaged.
FIRST = -(RATE_MINUTES + 1)


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(world.cluster("primary"), world.cluster("backup"), as_of=NOON)
    world.topic(flow)
    return flow


def reported(flow: Flow, minutes: Sequence[int]) -> None:
    for minute in minutes:
        LagSample.objects.create(
            flow=flow, resolution=FINE.seconds, at=NOON + timedelta(minutes=minute, seconds=20),
            out_of_sync=0,
        )  # fmt: skip


def sampled(flow: Flow, counts: dict[int, int], topic: str = "orders") -> None:
    for minute, count in counts.items():
        at = NOON + timedelta(minutes=minute)
        TopicSample.objects.create(
            flow=flow, topic=topic, resolution=60, at=at, owed=0, records=count, bytes=count * 100
        )
        FlowTopic.objects.filter(flow=flow, topic=topic).update(sampled_at=at)


def rates(topic: str = "orders") -> tuple[float | None, float | None]:
    row = FlowTopic.objects.get(topic=topic)
    return row.records_per_second, row.bytes_per_second


def test_a_rate_is_the_mean_of_five_finished_minutes(flow: Flow) -> None:
    reported(flow, range(FIRST, 0))
    # The oldest minute and the one that has just begun are not in it.
    sampled(flow, {FIRST: 9_000, -5: 300, -2: 300, 0: 9_000})
    topic_rates.update(now=NOON + timedelta(seconds=7))
    assert rates() == (2.0, 200.0)


def test_a_topic_without_samples_has_the_rate_zero_while_its_flow_reports(flow: Flow) -> None:
    reported(flow, range(FIRST, 0))
    topic_rates.update(now=NOON)
    assert rates() == (0.0, 0.0)


@pytest.mark.parametrize("missing", range(FIRST, 0))
def test_a_minute_without_a_report_makes_the_rate_unknown(flow: Flow, missing: int) -> None:
    FlowTopic.objects.update(records_per_second=4, bytes_per_second=400)
    world.topic(flow, "idle", records_per_second=0, bytes_per_second=0)
    minutes = [minute for minute in range(FIRST, 0) if minute != missing]
    reported(flow, minutes)
    sampled(flow, dict.fromkeys(minutes, 60))
    topic_rates.update(now=NOON)
    assert rates() == rates("idle") == (None, None)


def test_in_a_full_minute_only_topics_with_a_sample_have_a_rate(flow: Flow) -> None:
    at = NOON - timedelta(minutes=3)
    FullStep.objects.create(of_topics=True, resolution=60, at=at)
    world.topic(flow, "idle")
    reported(flow, range(FIRST, 0))
    sampled(flow, dict.fromkeys(range(FIRST, 0), 60))
    topic_rates.update(now=NOON)
    assert (rates(), rates("idle")) == ((1.0, 100.0), (None, None))


def test_a_skipped_topic_has_no_rate(flow: Flow) -> None:
    world.topic(flow, "left", state="skipped", remote_topic=None, records_per_second=3)
    reported(flow, range(FIRST, 0))
    topic_rates.update(now=NOON)
    assert rates("left")[0] is None


@laws
@given(counts=st.lists(st.none() | st.integers(0, 10**9), max_size=7))
def test_a_mean_is_known_only_if_each_step_is(counts: list[int | None]) -> None:
    found = mean_rate(counts, 60)
    if len(counts) < 2 or None in counts:
        assert found is None
    else:
        averaged = [count for count in counts[1:] if count is not None]
        assert found == pytest.approx(sum(averaged) / len(averaged) / 60)


def test_page_rest_and_prometheus_have_the_same_rate(
    client: Client, flow: Flow, django_user_model: type
) -> None:
    now = timezone.now()
    Flow.objects.update(as_of=now)
    FlowTopic.objects.update(records_per_second=1_234.4, bytes_per_second=2_500_000, as_of=now)
    world.topic(flow, "unknown")
    user = django_user_model.objects.create_superuser("root", password="x")
    client.force_login(user)
    page = client.get(f"/flows/{flow.pk}/topics/?sort=-records_per_second").content.decode()
    assert '<td class="number">1,234</td>' in page
    assert '<td class="number">2.5 MB</td>' in page
    assert page.index("/topics/orders/") < page.index("/topics/unknown/")
    topic = client.get(f"/flows/{flow.pk}/topics/orders/").content.decode()
    assert "2.5 MB/s" in topic
    path = f"/api/v1/flows/{flow.pk}/topics/?ordering=-records_per_second"
    found = client.get(path).json()["results"]
    assert [row["records_per_second"] for row in found] == [1_234.4, None]
    series = client.get("/metrics").content.decode()
    line = 'understudy_topic_records_per_second{flow="primary->backup",source="primary",'
    assert f'{line}target="backup",topic="orders"}} 1234.4' in series
    assert f'{line}target="backup",topic="unknown"' not in series
