"""The running demo in Chromium: every link, both themes, desktop and phone widths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from controlplane.demo.stack import DemoStack
from tests.browser.conftest import chromium
from tests.journeys.crawler import Walker
from tests.journeys.demo_client import Rest
from tests.journeys.test_comparison import ENDED

__all__ = ["chromium"]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
WIDTHS = (360, 1600)
Arrive = Callable[..., Walker]


@pytest.fixture
def arrive(stage: DemoStack, chromium: Browser) -> Iterator[Arrive]:
    walkers: list[Walker] = []

    def by_theme(theme: Literal["light", "dark"] = "light") -> Walker:
        walkers.append(Walker(chromium, stage.facts, theme))
        return walkers[-1]

    yield by_theme
    for walker in walkers:
        walker.context.close()


@pytest.fixture
def flow(stage: DemoStack) -> int:
    rows = Rest(stage)("flows/")["results"]
    return int(next(row["id"] for row in rows if row["name"] == "primary->backup"))


def test_every_page_is_quiet_and_whole_and_every_file_comes(
    stage: DemoStack, arrive: Arrive, until: Callable[..., float], flow: int
) -> None:
    rest = Rest(stage)
    shown = {
        "comparisons": rest("comparisons/", {"flow": flow, "seconds": 20})["id"],
        "failovers": rest("failovers/", {"flow": flow, "kind": "simulation"})["id"],
    }
    for kind, key in shown.items():
        path = f"{kind}/{key}/"
        until(lambda: rest(path)["state"] in ENDED, 120, f"{path} has ended")  # noqa: B023
    light, dark = arrive(), arrive("dark")
    runs = [f"/{kind}/{key}/" for kind, key in shown.items()]
    pages, files = light.follow("/", f"/flows/{flow}/", *runs)
    # The known number; fewer means that a page is not linked any more.
    assert len(pages) > 80
    for address in files:
        body = light.download(address)
        if "as=json" in address:
            json.loads(body)
    # Axe takes longest: a theme at the desk, the other at the phone.
    for walker, judged in ((light, 1600), (dark, 360)):
        for address in pages:
            walker.arrive(address)
            for width in WIDTHS:
                walker.look(width, axe=width == judged)
    assert light.wrong == {}
    assert dark.wrong == {}


def test_what_can_be_pressed_without_harm_does_what_it_says(arrive: Arrive, flow: int) -> None:
    walker = arrive()
    page = walker.page
    for act in (_keys, _pauses, _filters, _charts, _simulates):
        act(page, f"/flows/{flow}/")
    assert walker.wrong == {}


def _keys(page: Page, flow: str) -> None:
    page.goto("/")
    page.get_by_role("button", name="Pause refreshing").click()
    expect(page.locator("#live-sign")).to_contain_text("paused")
    page.get_by_role("button", name="Go on refreshing").click()
    page.locator("body").press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/flows/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("body").press("Control+k")
    page.get_by_role("dialog", name="Go to").get_by_role("combobox").press_sequentially("billin")
    expect(page.get_by_role("option", name=re.compile("^billing group"))).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/?q=billing")


def _pauses(page: Page, flow: str) -> None:
    for verb, word in (("Pause", "paused"), ("Resume", "running")):
        page.goto(flow)
        page.get_by_role("button", name=re.compile(f"^{verb} primary")).click()
        expect(page.locator("h1 .state")).to_contain_text(word, timeout=60_000)


def _filters(page: Page, flow: str) -> None:
    page.goto(f"{flow}partitions/")
    page.get_by_label("Filter partitions by name").fill("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=orders**")
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_role("link", name="Partition", exact=True).click()
    page.wait_for_url("**sort=**")
    with page.expect_download() as coming:
        page.get_by_role("link", name="CSV", exact=True).click()
    text = coming.value.path().read_text(encoding="utf-8")
    assert len(text.splitlines()) == 7
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url("**/partitions/?")


def _charts(page: Page, flow: str) -> None:
    page.goto(f"{flow}charts/")
    for span in ("24 h", "7 d", "30 d", "1 h"):
        page.get_by_role("link", name=span, exact=True).click()
        expect(page.locator(".chart .main-svg").first).to_be_visible()


def _simulates(page: Page, flow: str) -> None:
    page.goto(flow)
    page.get_by_role("button", name="Simulate failover").click()
    page.wait_for_url("**/failovers/**")
    expect(page.locator("h1 .state")).to_contain_text("succeeded", timeout=90_000)
    expect(page.locator("#live")).to_contain_text("would be lost")
