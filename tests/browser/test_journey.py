"""A user's journey: sign in, add two clusters and a flow, pause, stop and delete it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from mirrors.models import Cluster, Flow
from tests.browser.conftest import Visitor
from tests.pages import world


def _add_cluster(page: Page, alias: str) -> None:
    page.goto("/clusters/")
    page.get_by_role("link", name="Add cluster").first.click()
    page.get_by_label("Alias").fill(alias)
    page.get_by_label("Bootstrap servers").fill(f"{alias}.example:9092")
    page.get_by_role("button", name="Add cluster and test it").click()
    expect(page.get_by_role("heading", name=alias)).to_be_visible()
    expect(page.get_by_text(f"A worker asks {alias}")).to_be_visible()


def test_from_sign_in_to_a_deleted_flow(visit: Callable[..., Visitor]) -> None:
    visitor = visit(by_form=True)
    page = visitor.page
    expect(page.get_by_role("heading", name="Nothing is replicated yet").first).to_be_visible()
    _add_cluster(page, "primary")
    _add_cluster(page, "backup")

    page.keyboard.press("g")
    page.keyboard.press("f")
    page.get_by_role("link", name="Add flow").first.click()
    page.get_by_label("Source", exact=True).select_option("primary")
    page.get_by_label("Target", exact=True).select_option("backup")
    page.locator("#id_topics").fill("([broken")
    page.get_by_role("button", name="Add and start flow").click()
    expect(page.locator("#id_topics-errors")).to_contain_text("topics")
    page.locator("#id_topics").fill("orders, payments.*")
    page.get_by_role("button", name="Add and start flow").click()
    expect(page.get_by_role("heading", name="primary→backup")).to_be_visible()

    page.get_by_role("button", name="Pause primary→backup").click()
    expect(page.get_by_text("Pause requested for primary→backup.")).to_be_visible()
    assert Flow.objects.get().desired_state == "paused"

    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Stop…").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill("End of the exercise")
    dialog.get_by_role("button", name="Stop primary→backup").click()
    expect(page.get_by_text("Stop requested for primary→backup.")).to_be_visible()

    page.get_by_role("link", name="Configuration").click()
    page.get_by_role("link", name="Delete primary→backup…").click()
    final = dialog.get_by_role("button", name="Delete primary→backup")
    expect(final).to_be_disabled()
    dialog.get_by_label("Type backup to confirm").fill("backu")
    expect(final).to_be_disabled()
    dialog.get_by_label("Type backup to confirm").press_sequentially("")
    dialog.get_by_label("Type backup to confirm").fill("backup")
    final.click()
    expect(page.get_by_text("primary→backup is deleted.")).to_be_visible()
    assert not Flow.objects.exists()
    assert Cluster.objects.count() == 2
    unexpected = [text for text in visitor.complaints if "422" not in text]
    assert unexpected == []


def test_the_fields_of_a_cluster_follow_its_security_protocol(
    visit: Callable[..., Visitor],
) -> None:
    page = visit().page
    page.goto("/add/cluster/")
    password, ca = page.locator("#id_sasl_password"), page.locator("#id_ssl_ca")
    expect(password).to_be_hidden()
    expect(ca).to_be_hidden()
    page.get_by_label("Security protocol").select_option("SASL_SSL")
    expect(password).to_be_visible()
    expect(ca).to_be_visible()
    expect(page.locator("#id_oauth_endpoint")).to_be_hidden()
    page.get_by_label("SASL mechanism").select_option("OAUTHBEARER")
    expect(page.locator("#id_oauth_endpoint")).to_be_visible()


def test_a_dangerous_act_is_a_plain_page_without_javascript(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit(java_script_enabled=False).page
    Flow.objects.update(desired_state="stopped")
    flow.jobs.update(ended_at=flow.since)
    page.goto(f"/flows/{flow.pk}/configuration/")
    page.get_by_role("link", name="Delete primary→backup…").click()
    page.get_by_label("Type backup to confirm").fill("backup")
    page.get_by_role("button", name="Delete primary→backup").click()
    expect(page.get_by_text("primary→backup is deleted.")).to_be_visible()


def test_a_window_is_refused_with_a_reason_corrected_and_shown_on_the_flow(
    visit: Callable[..., Visitor],
) -> None:
    page = visit().page
    for alias in ("primary", "backup"):
        world.cluster(alias)
    page.goto("/add/flow/")
    page.get_by_label("Source", exact=True).select_option("primary")
    page.get_by_label("Target", exact=True).select_option("backup")
    page.get_by_label("Start from").fill("orders:0:5\norders:1:7")
    page.get_by_label("Window (minutes)").fill("480")
    page.get_by_role("button", name="Add flow", exact=True).click()
    expect(page.locator("#id_run_window_minutes-errors")).to_contain_text("needs run.schedule")
    page.get_by_role("alert").get_by_role("link", name="Window (minutes)").click()
    expect(page.get_by_label("Window (minutes)")).to_be_focused()
    # A minute of a day that is far away: the window is closed now.
    page.get_by_label("Schedule run.schedule", exact=True).fill("0 0 29 2 *")
    page.get_by_label("Time zone of the schedule").fill("Europe/Berlin")
    page.get_by_role("button", name="Add flow", exact=True).click()
    expect(page.get_by_role("heading", name="primary→backup")).to_be_visible()
    expect(
        page.get_by_text("run.schedule takes effect once somebody starts the flow.")
    ).to_be_visible()
    flow = Flow.objects.get()
    assert flow.properties["start.from"] == "orders:0:5,orders:1:7"
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Window (minutes)").fill("60")
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_text("Nothing restarts. The flow is stopped")).to_be_visible()
    page.get_by_role("button", name="Apply changes to primary→backup").click()
    expect(page.get_by_text("primary→backup is changed")).to_be_visible()
    flow.refresh_from_db()
    assert flow.properties["run.window.minutes"] == "60"
