"""From the first screen to a finished simulation: two clicks, then it shows by itself."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from mirrors.models import FailoverRun, Flow
from mirrors.services import failovers
from tests.browser.conftest import Visitor
from tests.browser.test_look import _axe, _widths_that_scroll_sideways
from tests.pages.test_failovers import finish


def test_a_simulation_is_two_clicks_away_and_shows_its_end_by_itself(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.get_by_role("link", name="primary→backup").first.click()
    page.get_by_role("button", name="Simulate failover").click()
    expect(page.get_by_role("heading", name="Simulated failover primary→backup")).to_be_visible()
    expect(page.get_by_text("Nothing real is touched")).to_be_visible()
    run = FailoverRun.objects.get()
    failovers.begin_step(run=run, name="look")
    expect(page.get_by_role("row", name="Ask both clusters")).to_contain_text("running")
    failovers.end_step(run=run, name="look", state="succeeded", reason="2 partitions, 1 group.")
    finish(run)
    said = page.get_by_text("If primary died now, 7 records would be lost.")
    expect(said).to_be_visible()
    expect(page.get_by_role("row", name="billing").first).to_contain_text("proven")
    expect(page.get_by_role("button", name="Simulate again")).to_be_visible()
    found = [*_axe(visitor), *_widths_that_scroll_sideways(visitor, "failover", "light")]
    assert found == []
    page.emulate_media(color_scheme="dark")
    assert [*_axe(visitor), *_widths_that_scroll_sideways(visitor, "failover", "dark")] == []
    page.emulate_media(media="print")
    expect(said).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    page.emulate_media(media="screen")
    page.keyboard.press("g")
    page.keyboard.press("v")
    expect(page.get_by_role("row", name="primary→backup")).to_contain_text("succeeded")
    assert visitor.complaints == []
