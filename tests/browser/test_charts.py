"""The charts of a flow in Chromium: drawn without console errors, refreshed, zoomed together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, expect

from mirrors.models import Flow
from monitoring.domain.history import FINE
from monitoring.models import LagSample
from tests.browser.axe import violations
from tests.browser.conftest import Visitor
from tests.browser.test_appearance import what_does_not_fit

POINTS = "document.querySelector('[data-figure*=\"/rpo/\"]').data[0].x.length"
RANGES = """[...document.querySelectorAll('[data-figure]')]
    .map((chart) => chart.layout.xaxis.range.join())"""


def _history(flow: Flow, count: int = 60) -> None:
    now = FINE.slot(timezone.now())
    LagSample.objects.bulk_create(
        LagSample(
            flow=flow,
            resolution=FINE.seconds,
            at=now - timedelta(seconds=10 * step),
            offset_lag=step * 11,
            time_lag_ms=step * 900,
            records_per_second=500 - step,
            bytes_per_second=90_000.0,
            out_of_sync=1,
        )
        for step in range(count)
    )


def test_the_charts_draw_under_the_strict_policy_follow_their_rows_and_zoom_together(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    _history(flow)
    visitor = visit(color_scheme="dark")
    page = visitor.page
    page.goto(f"/flows/{flow.pk}/charts/?range=1h")
    expect(page.locator(".chart .scatterlayer .js-line")).to_have_count(4)
    assert page.evaluate(POINTS) == 60
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    box = page.locator("[data-figure*='/rpo/'] .nsewdrag").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 50)
    hovered = page.locator("[data-figure*='/rpo/'] .hoverlayer")
    expect(hovered).to_contain_text("UTC")
    expect(hovered).to_contain_text("by your clock")
    # What the server drew is replaced, not covered.
    expect(page.locator(".chart .frame")).to_have_count(0)
    wide = page.evaluate(RANGES)[0]
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60, steps=4)
    page.mouse.up()
    _until(page, f"new Set({RANGES}).size === 1")
    _history_later(flow)
    # The late sample, and the break between it and the others.
    _until(page, f"{POINTS} === 62")
    page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + 50)
    _until(page, f"{RANGES}[0] > {wide!r} && new Set({RANGES}).size === 1")
    assert visitor.complaints == []
    assert violations(visitor) == []
    assert what_does_not_fit(visitor, "flow-charts", "dark") == []


def test_the_overview_reads_a_minute_of_its_chart_in_utc_and_by_the_browsers_clock(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    _history(flow)
    visitor = visit(timezone_id="Asia/Kolkata")
    plot = visitor.page.locator(".line-chart .plot")
    box = plot.bounding_box()
    assert box is not None
    visitor.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 50)
    values = visitor.page.locator(".chart-values")
    expect(values).to_contain_text(re.compile(r"\d\d:\d\d UTC · \d\d:\d\d GMT\+5:30"))
    expect(values).to_contain_text("primary→backup")
    visitor.page.mouse.move(box["x"] + 5, box["y"] - 100)
    expect(values).to_be_hidden()
    assert visitor.complaints == []


def _until(page: Page, said: str) -> None:
    """Playwright's own waiting evaluates text, which the pages' policy forbids."""
    until = time.monotonic() + 15
    while not page.evaluate(said):
        assert time.monotonic() < until, said
        page.wait_for_timeout(100)


def _history_later(flow: Flow) -> None:
    LagSample.objects.create(
        flow=flow,
        resolution=FINE.seconds,
        at=FINE.slot(timezone.now()) - timedelta(minutes=20),
        offset_lag=1,
        time_lag_ms=1,
        out_of_sync=0,
    )
