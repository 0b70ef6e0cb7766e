"""A comparison in Chromium: requested by the form, shown in both themes and at every width."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from mirrors.models import Flow
from tests.browser.axe import violations
from tests.browser.conftest import Visitor
from tests.browser.test_appearance import what_does_not_fit
from tests.pages.test_comparisons import finished


def test_a_comparison_is_asked_for_and_what_it_found_is_read(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.get_by_role("link", name="Compare two clusters").click()
    page.get_by_label("Flow", exact=True).select_option(str(flow.pk))
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text("Waiting for a worker.")).to_be_visible()
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_text("Aborted by admin")).to_be_visible()
    run = finished(flow)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for part in ("", "partitions/"):
            page.goto(f"/comparisons/{run.pk}/{part}")
            name = f"comparison-{part.strip('/')}"
            assert [*violations(visitor), *what_does_not_fit(visitor, name, theme)] == []
    page.goto(f"/comparisons/{run.pk}/")
    expect(page.get_by_role("row", name="orders-0 offset 4")).to_contain_text("changed")
    assert visitor.complaints == []
