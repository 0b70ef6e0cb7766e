"""The page of a topic in Chromium: charts, ranges, configs of both clusters, a live figure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.utils import timezone
from playwright.sync_api import expect

from mirrors.models import Flow, TopicConfigs
from monitoring.domain.history import TOPIC_MINUTE
from monitoring.models import LagSample, PartitionSample, TopicSample
from tests.browser.axe import violations
from tests.browser.conftest import Visitor
from tests.browser.test_appearance import what_does_not_fit
from tests.pages import world


def _history(flow: Flow) -> datetime:
    """Samples of the last half hour; returns when 70 records were owed."""
    now = TOPIC_MINUTE.slot(timezone.now())
    LagSample.objects.all().delete()
    for ago in range(30):
        at = now - timedelta(minutes=ago)
        LagSample.objects.create(
            flow=flow, resolution=60, at=at, offset_lag=0, time_lag_ms=0, out_of_sync=0
        )
        owed = 70 if ago == 10 else 4
        of_step = {"resolution": 60, "at": at, "owed": owed, "time_lag_ms": owed * 1_000}
        TopicSample.objects.create(flow=flow, topic="orders", records=100, bytes=2_000, **of_step)
        PartitionSample.objects.create(flow=flow, topic="orders", partition=0, **of_step)
    return now - timedelta(minutes=10)


def test_a_topics_page_is_reached_by_its_name_and_reads_its_charts(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    worst = _history(flow)
    visitor = visit(timezone_id="Asia/Kolkata")
    page = visitor.page
    page.goto(f"/flows/{flow.pk}/topics/")
    page.get_by_role("link", name="orders", exact=True).click()
    page.wait_for_url(f"**/flows/{flow.pk}/topics/orders/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
    charts = page.locator(".line-chart .plot")
    expect(charts).to_have_count(4)
    owed = page.locator("section", has=page.locator("#chart-owed"))
    expect(owed).to_contain_text("peak 70")
    box = owed.locator(".plot").bounding_box()
    assert box is not None
    start = int(owed.locator(".plot").get_attribute("data-start") or 0)
    step = (round(worst.timestamp()) - start) / 60 + 0.5
    page.mouse.move(box["x"] + box["width"] * step / 60, box["y"] + 20)
    values = page.locator(".chart-values")
    expect(values).to_contain_text("topic: 70 records")
    expect(values).to_contain_text("UTC")
    expect(values).to_contain_text("GMT+5:30")
    # Before the first sample nothing is known: it is not drawn as 0.
    page.mouse.move(box["x"] + box["width"] * 5 / 60, box["y"] + 20)
    expect(values).to_contain_text("topic: unknown")
    page.get_by_role("link", name="24 h").click()
    page.wait_for_url("**range=24h")
    expect(page.get_by_role("link", name="24 h")).to_have_attribute("aria-current", "true")
    expect(owed).to_contain_text("peak 70")
    assert visitor.complaints == []


def test_configs_of_both_clusters_are_read_by_a_button_and_equal_ones_unfold(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.goto(f"/flows/{flow.pk}/topics/orders/")
    configs = page.locator("section", has=page.locator("#configs-title"))
    TopicConfigs.objects.update(rows=[])
    page.reload()
    configs.get_by_role("button", name="Read both clusters").click()
    expect(configs).to_contain_text("A worker reads both clusters")
    TopicConfigs.objects.update(ended_at=timezone.now(), rows=world.CONFIGS)
    # Without a reload: the page follows its rows.
    expect(configs.get_by_role("rowheader", name="retention.ms")).to_be_visible()
    expect(configs.get_by_role("rowheader", name="flush.ms")).to_be_hidden()
    configs.get_by_text("1 equal default").click()
    expect(configs.get_by_role("rowheader", name="flush.ms")).to_be_visible()
    world.owes(flow, "orders", offset_lag=777_123)
    expect(page.locator(".figures")).to_contain_text("777,123")
    expect(configs.get_by_role("rowheader", name="flush.ms")).to_be_visible()
    assert visitor.complaints == []
    assert violations(visitor) == []
    assert what_does_not_fit(visitor, "flow-topic-configs", "light") == []
