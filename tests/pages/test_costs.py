"""Costs: counted with each minute's samples, shown by topic, priced by an admin, alerted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.topics.compression import CompressionSample
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow, FlowTopic, GroupOffset, Transition
from mirrors.services.errors import Conflict
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from monitoring.domain.costs import month_of
from monitoring.domain.history import TOPIC_HOUR, TOPIC_MINUTE
from monitoring.forecasts import compression, usage
from monitoring.forecasts.advice import readers_of
from monitoring.history import topic_collector
from monitoring.models import CompressionReading, MonthlyUsage, TopicSample, TransferPrice
from tests.pages import world
from tests.pages.conftest import As

GB = 10**9


@pytest.fixture
def flow(db: None) -> Flow:
    """Orders sent 90 GB this month, and 10 GB in the last minute."""
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    month, minute = month_of(timezone.now()), TOPIC_MINUTE.slot(timezone.now())
    MonthlyUsage.objects.create(
        flow=flow, topic="orders", month=month.date(), bytes=90 * GB, since=month, until=minute
    )
    usage.add_minute(minute, [sample(flow, "orders", 10 * GB)])
    return flow


def sample(flow: Flow, topic: str, count: int) -> TopicSample:
    return TopicSample(flow=flow, topic=topic, resolution=60, owed=0, records=1, bytes=count)


def test_each_minute_of_a_topic_is_counted_once(db: None) -> None:
    flow = world.flow()
    minute = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    for _ in range(2):
        usage.add_minute(minute, [sample(flow, "a", 5), sample(flow, "b", 7), sample(flow, "c", 0)])
    # The collector comes back within the minute for topics that had no figures yet.
    usage.add_minute(minute, [sample(flow, "d", 2)])
    assert usage.usage_of(flow, minute) == {"a": 5, "b": 7, "d": 2}
    usage.add_minute(minute + TOPIC_MINUTE.step, [sample(flow, "a", 6)])
    assert usage.topic_usage(flow, "a", minute) == 5
    december = minute + TOPIC_MINUTE.step
    usage.add_minute(december + TOPIC_MINUTE.step, [sample(flow, "a", 1)])
    assert usage.usage_of(flow, december) == {"a": 7}
    assert usage.costs([flow], december)[flow.pk].bytes == 7
    [row] = MonthlyUsage.objects.filter(topic="a", month=december.date())
    assert (row.since, row.until) == (december, december + 2 * TOPIC_MINUTE.step)


def test_a_sample_of_a_topic_is_in_its_month(db: None) -> None:
    now = timezone.now()
    flow = world.flow(as_of=now)
    world.topic(flow, "orders", records=3, bytes=100, as_of=now)
    for _ in range(2):
        topic_collector.collect(now=now)
    assert usage.usage_of(flow, now) == {"orders": 100}
    FlowTopic.objects.update(records=5, bytes=140, as_of=now + TOPIC_MINUTE.step)
    topic_collector.collect(now=now + TOPIC_MINUTE.step)
    sent = usage.topic_usage(flow, "orders", now + TOPIC_MINUTE.step)
    assert sent == 140 - 100 * (month_of(now) != month_of(now + TOPIC_MINUTE.step))
    topic_collector.roll_up(now=now + TOPIC_HOUR.step)
    assert sum(MonthlyUsage.objects.values_list("bytes", flat=True)) == 140


def test_before_the_first_count_the_bytes_are_unknown_and_not_zero(admin: Client, db: None) -> None:
    flow = world.flow()
    assert "0 B" not in admin.get("/costs/").content.decode()
    assert "0 B" not in admin.get(f"/flows/{flow.pk}/cost/").content.decode()


def test_the_forecast_of_a_new_flow_counts_from_its_begin(db: None) -> None:
    old = world.flow(world.cluster("primary"), world.cluster("backup"))
    new = world.flow(old.target, old.source)
    now = datetime(2026, 11, 16, tzinfo=UTC)
    month, day = month_of(now), timedelta(days=1)
    for flow, since in ((old, month), (new, now - day)):
        MonthlyUsage.objects.create(
            flow=flow, topic="a", month=month.date(), bytes=10, since=since, until=now
        )
    found = usage.costs([old, new], now)
    assert (found[old.pk].forecast_bytes, found[new.pk].forecast_bytes) == (20, 160)
    assert usage.costs([new], now) == {new.pk: found[new.pk]}


def test_an_admin_sets_a_price_and_pages_show_cost_and_budget(signed_in: As, flow: Flow) -> None:
    admin = signed_in("admin")
    page = admin.get("/costs/").content.decode()
    assert "100 GB" in page
    assert "no price" in page
    sent = {"per_gb": "0.5", "currency": "eur", "monthly_budget": "40"}
    assert signed_in("operator").post(f"/flows/{flow.pk}/cost/", sent).status_code == 403
    assert admin.post(f"/flows/{flow.pk}/cost/", sent).status_code == 302
    page = admin.get(f"/flows/{flow.pk}/cost/").content.decode()
    assert "50.00 EUR" in page
    assert f'href="/flows/{flow.pk}/topics/orders/"' in page
    assert "40.00 EUR" in admin.get("/costs/").content.decode()
    world.topic(flow)
    assert "<small>50.00 EUR</small>" in (
        admin.get(f"/flows/{flow.pk}/topics/orders/").content.decode()
    )
    assert Transition.objects.filter(why__contains="0.5 EUR per GB, budget 40.00 EUR").exists()
    admin.post(f"/flows/{flow.pk}/cost/", {"per_gb": ""})
    assert not TransferPrice.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [({"per_gb": "1", "currency": "euro"}, "currency"),
     ({"per_gb": "1", "currency": ""}, "currency"),
     ({"per_gb": "-1", "currency": "EUR"}, "per_gb"),
     ({"per_gb": "much", "currency": "EUR"}, "per_gb"),
     ({"per_gb": "", "monthly_budget": "5"}, "per_gb"),
     ({"per_gb": "1", "currency": "EUR", "monthly_budget": "0"}, "monthly_budget")],
)  # fmt: skip
def test_a_price_that_cannot_be_is_refused_at_its_field(
    admin: Client, flow: Flow, sent: dict[str, str], field: str
) -> None:
    answer = admin.post(f"/flows/{flow.pk}/cost/", sent)
    assert answer.status_code == 422
    assert world.error_at(answer.content.decode(), field)
    assert not TransferPrice.objects.exists()


def test_rest_has_the_same_and_unknown_is_null(signed_in: As, flow: Flow) -> None:
    admin, path = signed_in("admin"), f"/api/v1/flows/{flow.pk}/cost/"
    found = admin.get(path).json()
    assert (found["bytes"], found["cost"], found["forecast"], found["budget"]) == (
        100 * GB, None, None, None
    )  # fmt: skip
    assert [row["code"] for row in found["advice"]] == ["unsurveyed"]
    body = {"per_gb": "0.5", "currency": "EUR", "monthly_budget": "40"}
    found = admin.post(path, body, content_type="application/json").json()
    assert Decimal(found["cost"]) == 50
    assert [(row["topic"], Decimal(row["cost"])) for row in found["topics"]] == [("orders", 50)]
    [row] = signed_in("viewer").get("/api/v1/costs/").json()["results"]
    assert (row["name"], row["bytes"]) == ("primary->backup", 100 * GB)
    refused = signed_in("operator").post(path, body, content_type="application/json")
    assert refused.status_code == 403
    GroupOffset.objects.create(
        flow=flow, group="billing", topic="payments", partition=0, as_of=timezone.now()
    )
    assert "1 topic (orders)" in admin.get(path).json()["advice"][0]["sentence"]


def test_a_month_above_its_budget_is_a_fact_for_the_alert(flow: Flow) -> None:
    now = timezone.now()
    condition = Condition(kind="budget", threshold=100)
    [(_, facts)] = flow_facts(now)
    assert read_flow(condition, facts, now).sentence == "has no budget"
    usage.set_price(flow=flow, per_gb=Decimal("0.5"), currency="EUR", budget=Decimal(1), who="ann")
    [(_, facts)] = flow_facts(now)
    reading = read_flow(condition, facts, now)
    if now - month_of(now) >= timedelta(hours=6):
        assert reading.holds
        assert "of its budget of 1.00 EUR; 50.00 EUR so far" in reading.sentence
    else:
        assert reading.sentence == "has no forecast of its cost yet"


def test_a_young_history_says_since_when_it_counts(viewer: Client, flow: Flow) -> None:
    since = timezone.now() - timedelta(hours=1)
    MonthlyUsage.objects.update(since=since)
    if month_of(since) == month_of(timezone.now()):
        assert "costs are lower bounds" in viewer.get("/costs/").content.decode()
        assert "known since" in viewer.get(f"/flows/{flow.pk}/cost/").content.decode()


SAMPLE = {
    "codec": "lz4", "records": 3_000, "batches": 1_000, "bytes": 1_000_000, "codec_bytes": 600_000,
    "batches_bytes": 950_000, "both_bytes": 590_000,
}  # fmt: skip


def test_an_operator_measures_compression_and_a_worker_answers(
    signed_in: As, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic(flow, "orders", remote_topic="primary.orders")
    asked: list[object] = []

    def measure(spec: ClusterSpec, topics: dict[str, int], **_: object) -> Partial[str, object]:
        asked.append((spec.alias, topics))
        done = {"primary.orders": CompressionSample(**SAMPLE)}  # type: ignore[arg-type]
        return Partial(done=done, failed={})

    monkeypatch.setattr(compression, "measure_topics", measure)
    path = f"/flows/{flow.pk}/cost/compression/"
    assert signed_in("viewer").post(path).status_code == 403
    assert signed_in("operator").post(path).status_code == 302
    page = signed_in("viewer").get(f"/flows/{flow.pk}/cost/").content.decode()
    assert "A worker reads backup" in page
    assert 'data-every="1"' in page, "the answer appears without a click"
    reading = CompressionReading.objects.get()
    compression.run_reading(reading_id=reading.pk)
    assert asked == [("backup", {"primary.orders": 3})]
    page = signed_in("viewer").get(f"/flows/{flow.pk}/cost/").content.decode()
    assert "orders has lz4 and has 3 records per batch" in page
    assert '<td class="number">40 %</td><td class="number">5 %</td>' in page
    found = signed_in("viewer").get(f"/api/v1/flows/{flow.pk}/cost/").json()
    assert found["compression"]["samples"] == [{"topic": "orders", **SAMPLE}]
    assert [row["topic"] for row in found["advice"] if row["code"] == "compression"] == ["orders"]
    rest = f"/api/v1/flows/{flow.pk}/cost/compression/"
    assert signed_in("viewer").post(rest).status_code == 403
    answer = signed_in("operator").post(rest)
    assert (answer.status_code, answer.json()["state"]) == (202, "requested")


def test_what_could_not_be_measured_says_why(
    viewer: Client, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = compression.request_reading(flow=flow, who="ann")

    def refuse(*_: object, **__: object) -> None:
        raise KafkaUnavailable("Cluster backup does not respond.", code="timeout")

    monkeypatch.setattr(compression, "measure_topics", refuse)
    compression.run_reading(reading_id=reading.pk)
    page = viewer.get(f"/flows/{flow.pk}/cost/").content.decode()
    assert "Cluster backup does not respond." in page


def test_a_flow_that_sent_nothing_has_nothing_to_measure(db: None) -> None:
    with pytest.raises(Conflict, match="nothing to measure"):
        compression.request_reading(flow=world.flow(), who="ann")


def test_a_reader_is_idle_since_its_offset_stopped_moving(flow: Flow) -> None:
    survey = timezone.now()
    facts = {"flow": flow, "group": "billing", "as_of": survey, "source_offset": 10}
    for topic, days, lag in (("orders", 9, 5), ("caught-up", 9, 0), ("young", None, 5)):
        GroupOffset.objects.create(
            topic=topic, partition=0, source_lag=lag,
            offset_since=None if days is None else survey - timedelta(days=days), **facts,
        )  # fmt: skip
    readers = readers_of(flow)
    assert readers is not None
    assert readers.idle == {"orders": timedelta(days=9)}
    # Another reader of the topic advances.
    GroupOffset.objects.create(
        topic="orders", partition=1, source_lag=0, offset_since=survey, **facts
    )
    readers = readers_of(flow)
    assert readers is not None
    assert readers.idle["orders"] == timedelta(0)
