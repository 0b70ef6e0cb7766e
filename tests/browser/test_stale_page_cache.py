"""A cached page says that the database is unreachable, until the first fresh response."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Route, expect

from controlplane.database import stale_page_cache
from mirrors.models import Flow
from tests.browser.conftest import Visitor


def test_a_kept_page_says_that_it_is_old_until_the_first_fresh_answer(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit().page
    away = [True]

    def answer(route: Route) -> None:
        if route.request.headers.get("hx-request"):
            route.fulfill(status=503, body="away") if away[0] else route.continue_()
            return
        fresh, now = route.fetch(), time.time()
        route.fulfill(
            response=fresh, body=stale_page_cache._mark_stale(fresh.body(), now - 90, now)
        )

    page.route("**/flows/", answer)
    page.goto("/flows/")
    banner = page.locator("#stale-banner")
    expect(banner).to_contain_text(
        "The database does not respond. This page and its figures are from"
    )
    expect(banner).to_contain_text("1 min 30 s ago")
    page.wait_for_timeout(4_000)
    expect(banner).to_be_visible()
    expect(page.locator("#live-sign")).to_contain_text("stale")
    away[0] = False
    expect(banner).to_be_hidden(timeout=20_000)
    expect(page.locator("#live-sign")).to_contain_text("live")
