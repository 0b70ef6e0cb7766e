"""The charts of a flow in Chromium: drawn without console errors, refreshed, zoomed together."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, expect

from mirrors.models import Flow
from monitoring.domain.history import FINE
from monitoring.models import LagSample
from tests.browser.conftest import Visitor
from tests.browser.test_appearance import _axe, _widths_that_scroll_sideways

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
    expect(page.locator(".hoverlayer .legendtext, .hoverlayer text").first).to_be_attached()
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
    assert _axe(visitor) == []
    assert _widths_that_scroll_sideways(visitor, "flow-charts", "dark") == []


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
