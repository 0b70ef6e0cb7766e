"""Live pages show their age, can be paused, and say so when updates stop."""

from __future__ import annotations

import re
from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from mirrors.models import Flow
from tests.browser.conftest import Visitor
from tests.pages import world


def test_a_page_follows_its_rows_without_reloading_or_losing_what_a_person_does(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit().page
    page.goto(f"/flows/{flow.pk}/configuration/")
    page.get_by_text("REST API equivalent").click()
    page.evaluate("window.sameDocument = true")
    expect(page.locator("#live-sign")).to_contain_text(re.compile(r"live, \d+ s ago"))
    world.owes(Flow.objects.get(topics__topic="orders"), "orders", offset_lag=777_123)
    expect(page.locator(".figures")).to_contain_text("777,123", timeout=15_000)
    assert page.evaluate("window.sameDocument") is True
    expect(page.get_by_text("Read this flow")).to_be_visible()


def test_typing_into_a_filter_survives_a_refresh(visit: Callable[..., Visitor], flow: Flow) -> None:
    page = visit().page
    page.goto(f"/flows/{flow.pk}/topics/")
    page.get_by_label("Filter topics by name").press_sequentially("ord")
    world.owes(Flow.objects.get(topics__topic="orders"), "orders", offset_lag=777_123)
    expect(page.locator(".figures")).to_contain_text("777,123", timeout=15_000)
    field = page.get_by_label("Filter topics by name")
    expect(field).to_have_value("ord")
    expect(field).to_be_focused()
    field.press("Enter")
    page.wait_for_url("**q=ord**")
    expect(page.get_by_role("rowheader", name="orders")).to_be_visible()
    expect(page.get_by_role("rowheader", name="__internal")).to_have_count(0)


def test_refreshing_can_be_held_and_taken_up_again(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit().page
    page.goto("/flows/")
    page.get_by_role("button", name="Pause refreshing").click()
    expect(page.locator("#live-sign")).to_contain_text("paused")
    world.owes(Flow.objects.get(topics__topic="orders"), "orders", offset_lag=777_123)
    page.wait_for_timeout(4_000)
    expect(page.locator("#live")).not_to_contain_text("777,123")
    page.get_by_role("button", name="Go on refreshing").click()
    expect(page.locator("#live")).to_contain_text("777,123")


def test_nothing_moves_under_an_open_menu_and_the_page_says_that_it_waits(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit().page
    page.goto(f"/flows/{flow.pk}/")
    page.get_by_text("More", exact=True).click()
    expect(page.locator("#live-sign")).to_contain_text("held")
    page.keyboard.press("Escape")
    expect(page.locator("#live-sign")).to_contain_text("live")


def test_when_the_feed_stops_the_page_says_so_and_its_figures_look_old(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.goto("/flows/")
    visitor.context.set_offline(True)
    expect(page.locator("#stale-banner")).to_be_visible(timeout=30_000)
    expect(page.locator("#stale-banner")).to_contain_text("Nothing heard from Understudy since")
    assert page.locator("body").get_attribute("data-stale") is not None
    visitor.context.set_offline(False)
    expect(page.locator("#stale-banner")).to_be_hidden(timeout=30_000)


def test_someone_signed_out_meanwhile_is_led_to_the_sign_in(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    visitor.page.goto("/flows/")
    visitor.context.clear_cookies()
    visitor.page.wait_for_url("**/login/?next=/flows/", timeout=20_000)


def test_the_keyboard_reaches_search_pages_and_the_list_of_keys(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.keyboard.press("/")
    expect(
        page.get_by_role("searchbox", name="Search flows, clusters, topics and groups")
    ).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=orders")
    page.locator("body").press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/clusters/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    _goes_by_the_palette(visitor, flow)


def _goes_by_the_palette(visitor: Visitor, flow: Flow) -> None:
    page = visitor.page
    page.locator("body").press("Control+k")
    palette = page.get_by_role("dialog", name="Go to")
    field = palette.get_by_role("combobox")
    expect(field).to_be_focused()
    # What the menu has is there before anything is typed.
    expect(palette.get_by_role("option", name="Schedules")).to_be_visible()
    field.press_sequentially("orde")
    topic = palette.get_by_role("option", name=re.compile("^orders topic"))
    expect(topic).to_be_visible()
    expect(topic).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == topic.get_attribute("id")
    assert [rule["id"] for rule in Axe().run(page).response["violations"]] == []
    page.keyboard.press("ArrowDown")
    expect(palette.get_by_role("option", name="Search for")).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('dialog')?.id ?? 'browser'") in {
        "palette",
        "browser",
    }
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    page.locator("body").press("Control+k")
    expect(field).to_have_value("")
    field.press_sequentially("orders")
    expect(topic).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/flows/{flow.pk}/topics/orders/")
    assert visitor.complaints == []
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"/flows/{flow.pk}/events/")
    for tabs in ("Parts of this flow", "Parts of this tab"):
        current = page.get_by_role("navigation", name=tabs).locator("[aria-current]")
        expect(current).to_be_in_viewport()
    page.goto("/clusters/")
    page.get_by_role("button", name="Menu").click()
    expect(page.locator(".side [aria-current]")).to_be_in_viewport()


def test_everything_can_be_read_without_javascript(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit(java_script_enabled=False).page
    page.goto(f"/flows/{flow.pk}/topics/")
    expect(page.get_by_role("rowheader", name="orders")).to_be_visible()
    page.get_by_role("link", name="Topic", exact=True).click()
    page.wait_for_url("**sort=topic**")
    page.get_by_label("Filter topics by name").fill("internal")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("rowheader", name="orders")).to_have_count(0)


def test_a_command_is_copied_with_one_click(visit: Callable[..., Visitor], flow: Flow) -> None:
    visitor = visit()
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visitor.page
    page.goto("/account/tokens/")
    page.get_by_role("button", name="Create token").click()
    token = page.locator("#new-token").text_content()
    page.get_by_role("button", name="Copy the token").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
