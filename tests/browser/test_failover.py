"""From the overview to a finished simulation in two clicks, and on to a switchover."""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone
from playwright.sync_api import expect

from mirrors.models import FailoverRun, Flow
from mirrors.services.failover import lifecycle
from tests.api.test_failover_runs import PLAN
from tests.browser.axe import violations
from tests.browser.conftest import Visitor
from tests.browser.test_appearance import what_does_not_fit
from tests.pages.test_failover_runbook import simulated_for
from tests.pages.test_failover_simulation import finish


def test_a_simulation_is_two_clicks_away_and_shows_its_end_by_itself(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.get_by_role("link", name="primary→backup", exact=True).first.click()
    page.get_by_role("button", name="Simulate failover").click()
    expect(page.get_by_role("heading", name="Simulated failover primary→backup")).to_be_visible()
    expect(page.get_by_text("Nothing is changed")).to_be_visible()
    run = FailoverRun.objects.latest("pk")
    lifecycle.begin_step(run=run, name="look")
    expect(page.get_by_role("row", name="Read offsets and groups")).to_contain_text("running")
    lifecycle.end_step(run=run, name="look", state="succeeded", reason="2 partitions, 1 group.")
    finish(run)
    said = page.get_by_text("If primary fails now, 7 records would be lost.")
    expect(said).to_be_visible()
    expect(page.get_by_role("row", name="billing").first).to_contain_text("proven")
    expect(page.get_by_role("button", name="Simulate again")).to_be_visible()
    found = [*violations(visitor), *what_does_not_fit(visitor, "failover", "light")]
    assert found == []
    page.emulate_media(color_scheme="dark")
    assert [*violations(visitor), *what_does_not_fit(visitor, "failover", "dark")] == []
    page.emulate_media(media="print")
    expect(said).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    page.emulate_media(media="screen")
    page.keyboard.press("g")
    page.keyboard.press("v")
    expect(page.get_by_role("row", name="primary→backup").first).to_contain_text("succeeded")
    assert visitor.complaints == []


def test_from_the_failover_page_to_the_last_confirmation_in_three_clicks(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    page.goto("/")
    page.get_by_role("link", name="Failover", exact=True).click()
    expect(page.get_by_role("heading", name="primary→backup")).to_be_visible()
    assert [
        *violations(visitor),
        *what_does_not_fit(visitor, "failovers", "light"),
    ] == []
    card = page.get_by_role("article", name="primary→backup")
    card.get_by_role("button", name="Planned switchover…").click()
    expect(page.get_by_role("heading", name="Simulating primary→backup")).to_be_visible()
    run = FailoverRun.objects.latest("pk")
    facts = {"state": "succeeded", "ended_at": timezone.now(), "plan": PLAN, "result": {}}
    FailoverRun.objects.filter(pk=run.pk).update(**facts, reason="12 records would be lost.")
    button = page.get_by_role("button", name="Switch over primary to backup")
    expect(button).to_be_disabled()
    page.get_by_label("Reason").fill("maintenance")
    page.get_by_label("to confirm").fill("backup")
    page.wait_for_timeout(2500)
    expect(button).to_be_enabled()
    button.click()
    expect(page.get_by_role("heading", name="Switchover primary→backup")).to_be_visible()
    assert visitor.complaints == []


def test_a_switchover_is_begun_from_its_simulation_and_steered_on_its_page(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit()
    page = visitor.page
    simulation = simulated_for(flow)
    page.goto(f"/failovers/{simulation.pk}/")
    page.get_by_role("link", name="Emergency failover…").click()
    expect(page.get_by_role("button", name="Fail over to backup without waiting")).to_be_visible()
    page.get_by_role("link", name="Planned switchover").click()
    expect(page.get_by_text("12 records would be lost.")).to_be_visible()
    button = page.get_by_role("button", name="Switch over primary to backup")
    expect(button).to_be_disabled()
    assert [
        *violations(visitor),
        *what_does_not_fit(visitor, "failover-begin", "light"),
    ] == []
    page.get_by_label("Reason").fill("maintenance")
    page.get_by_label("to confirm").fill("backup")
    button.click()
    expect(page.get_by_role("heading", name="Switchover primary→backup")).to_be_visible()
    run = FailoverRun.objects.get(kind="switchover")
    run.steps.filter(number__lt=7).update(state="succeeded", reason="It is so.")
    run.steps.filter(number=7).update(state="waiting", reason="Start the consumers, then confirm.")
    words = "Start the consumers on the target: Start the consumers, then confirm."
    FailoverRun.objects.filter(pk=run.pk).update(state="waiting", waits_for="person", reason=words)
    expect(page.get_by_text(words)).to_be_visible()
    found = [*violations(visitor), *what_does_not_fit(visitor, "failover-run", "light")]
    assert found == []
    page.emulate_media(color_scheme="dark")
    assert [
        *violations(visitor),
        *what_does_not_fit(visitor, "failover-run", "dark"),
    ] == []
    expect(page.get_by_role("button", name="Confirm the step")).to_be_visible()
