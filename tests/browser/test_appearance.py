"""Pages in Chromium: accessible, without console errors, at every width, in both themes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from mirrors.models import FailoverRun, Flow
from tests.browser.axe import Colors, violations
from tests.browser.conftest import Visitor
from tests.pages import world

PAGES = {
    "overview": "/",
    "topology": "/topology/",
    "schedules": "/schedules/",
    "costs": "/costs/",
    "flow-cost": "/flows/{pk}/cost/",
    "flows": "/flows/",
    "flow": "/flows/{pk}/",
    "flow-partitions": "/flows/{pk}/partitions/",
    "flow-groups": "/flows/{pk}/groups/",
    "groups": "/groups/",
    "flow-group": "/flows/{pk}/group/?group=app",
    "flow-gaps": "/flows/{pk}/gaps/",
    "gap": "/flows/{pk}/gaps/{pk}/",
    "flow-offsets": "/flows/{pk}/offsets/",
    "flow-duties": "/flows/{pk}/duties/",
    "flow-takeover": "/flows/{pk}/takeover/",
    "flow-jobs": "/flows/{pk}/jobs/",
    "flow-topics": "/flows/{pk}/topics/",
    "flow-topic": "/flows/{pk}/topics/orders/",
    "flow-positions": "/flows/{pk}/positions/",
    "flow-permissions": "/flows/{pk}/permissions/",
    "flow-configuration": "/flows/{pk}/configuration/",
    "flow-job": "/flows/{pk}/jobs/{job}/",
    "flow-history": "/flows/{pk}/history/",
    "flow-audit": "/flows/{pk}/events/",
    "flow-heartbeats": "/flows/{pk}/heartbeats/",
    "flow-alerts": "/flows/{pk}/alerts/",
    "audit": "/audit/",
    "flow-edit": "/flows/{pk}/edit/",
    "flow-failback": "/flows/{pk}/failback/",
    "failback": "/failbacks/{pk}/",
    "orphans": "/failbacks/{pk}/orphans/{pk}/",
    "flow-delete": "/flows/{pk}/delete/",
    "flow-explain": "/flows/{pk}/explain/?topic=orders",
    "flow-explain-group": "/flows/{pk}/explain/?group=app",
    "flow-left-behind": "/flows/{pk}/left-behind/",
    "flow-plan": "/flows/{pk}/plan/",
    "flow-conflicts": "/flows/{pk}/conflicts/",
    "flow-schemas": "/flows/{pk}/schemas/",
    "flow-schema-ids": "/flows/{pk}/schema-ids/",
    "flow-drift": "/flows/{pk}/drift/",
    "drift": "/flows/{pk}/drift/{pk}/",
    "flow-add": "/add/flow/",
    "flow-add-preview": "/add/flow/?preview={pk}",
    "flow-rules-preview": "/flows/{pk}/rules/?preview={pk}",
    "flow-template": "/add/template/?kind=chain",
    "flow-readiness": "/flows/{pk}/readiness/",
    "flow-objectives": "/flows/{pk}/objectives/",
    "drills": "/drills/",
    "drill-schedules": "/drills/schedules/",
    "drill-run": "/drills/runs/{pk}/",
    "drill-add": "/add/drill/",
    "certificate": "/certificates/c0ffee/",
    "verify": "/verify/",
    "verify-one": "/verify/c0ffee/",
    "alerts": "/alerts/",
    "alert-rules": "/alerts/rules/",
    "alert-rule-add": "/alerts/rules/add/",
    "alert-channel-add": "/alerts/channels/add/",
    "alert-silence-add": "/alerts/silences/add/",
    "alert-runbook": "/alerts/runbooks/forecast/",
    "clusters": "/clusters/",
    "cluster": "/clusters/primary/",
    "cluster-groups": "/clusters/primary/groups/",
    "cluster-edit": "/clusters/primary/edit/",
    "failovers": "/failovers/",
    "failover-run": "/failovers/{switch}/",
    "application-failback": "/failovers/{switch}/failback/",
    "approvals": "/approvals/",
    "flow-application": "/flows/{pk}/failover/application/?topics=orders",
    "comparisons": "/comparisons/",
    "comparison-add": "/add/comparison/",
    "runner-add": "/add/runner/",
    "runners": "/runners/",
    "runner": "/runners/default/",
    "import": "/imports/",
    "tokens": "/account/tokens/",
    "people": "/people/",
    "grants": "/people/grants/",
    "person": "/people/{person}/",
    "password": "/account/password/",
    "time-zone": "/account/time-zone/",
    "one-time-codes": "/account/one-time-codes/",
    "search": "/search/?q=prim",
    "help": "/help/",
    "api": "/api/v1/docs/",
}
# In parts, so that no test keeps the other session waiting for long.
PARTS = 4
WIDTHS = (360, 900, 1600)
# Cells whose text is wider than they are, and not cut off.
TOO_WIDE = """
[...document.querySelectorAll("th, td, .figures > div")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
  .filter((cell) => getComputedStyle(cell).overflowX === "visible")
  .map((cell) => cell.innerText.slice(0, 60))
  .filter((text) => text)
"""


def _shot(visitor: Visitor, name: str, theme: str, width: int) -> None:
    """Keep a picture for people to look at when UNDERSTUDY_SHOTS names a directory."""
    if directory := os.environ.get("UNDERSTUDY_SHOTS"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        visitor.page.screenshot(path=f"{directory}/{name}-{width}-{theme}.png")


def what_does_not_fit(visitor: Visitor, name: str, theme: str) -> list[str]:
    found = []
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 900})
        _shot(visitor, name, theme, width)
        if visitor.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        ):
            found.append(f"scrolls sideways at {width} px")
        found += [
            f"{text!r} lies over its neighbor at {width} px"
            for text in visitor.page.evaluate(TOO_WIDE)
        ]
    return found


def _in_the_dark(visitor: Visitor, name: str, colors: Colors) -> list[str]:
    """Colours apart both themes are the same page; who wants pictures wants them of both."""
    visitor.page.emulate_media(color_scheme="dark")
    bad = colors.violations(visitor)
    if "UNDERSTUDY_SHOTS" in os.environ:
        bad += what_does_not_fit(visitor, name, "dark")
    visitor.page.emulate_media(color_scheme="light")
    return [f"in the dark: {said}" for said in bad]


@pytest.fixture(scope="module", params=["once", "each"])
def colors(request: pytest.FixtureRequest) -> Colors:
    return Colors(each=request.param == "each")


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_is_accessible_quiet_in_the_console_and_fits_every_width_in_both_themes(
    visit: Callable[..., Visitor], flow: Flow, part: int, colors: Colors
) -> None:
    visitor = visit(color_scheme="light")
    found: dict[str, list[str]] = {}
    failed, admin = flow.jobs.get(state="failed"), User.objects.get(username="admin")
    switch = FailoverRun.objects.filter(scope__topics__isnull=False).latest("pk")
    keys = {"pk": flow.pk, "job": failed.pk, "person": admin.pk, "switch": switch.pk}
    for name in list(PAGES)[part::PARTS]:
        visitor.page.goto(PAGES[name].format(**keys))
        bad = violations(visitor, colors=False)
        bad += colors.violations(visitor)
        bad += _in_the_dark(visitor, name, colors)
        bad += what_does_not_fit(visitor, name, "light")
        if bad:
            found[name] = bad
    assert found == {}
    assert visitor.complaints == []


def test_the_figures_of_a_flow_stay_in_their_cells_from_a_phone_to_a_wide_screen(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit(color_scheme="light").page
    page.goto(f"/flows/{flow.pk}/")
    found = {}
    for width in range(WIDTHS[0], WIDTHS[-1], 40):
        page.set_viewport_size({"width": width, "height": 900})
        found[width] = page.evaluate(TOO_WIDE)
    assert {width: texts for width, texts in found.items() if texts} == {}


def test_text_that_is_too_pale_is_found_after_other_pages_and_in_the_dark(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor, colors = visit(color_scheme="light"), Colors()
    colors_of = (
        "color => document.querySelectorAll('main td').forEach(one => one.style.color = color)"
    )
    for scheme, color in (("light", "#bbb"), ("dark", "#555")):
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.page.goto("/clusters/")
        assert colors.violations(visitor) == []
        visitor.page.goto("/flows/")
        assert colors.violations(visitor) == []
        visitor.page.evaluate(colors_of, color)
        assert "color-contrast" in "".join(colors.violations(visitor))


def test_the_theme_follows_the_system_until_switched_and_then_stays(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit(color_scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.locator("details.menu summary", has_text="admin").click()
    page.get_by_role("button", name="Dark or light").click()
    light = page.evaluate(ground)
    page.goto("/flows/")
    assert dark != light
    assert page.evaluate(ground) == light
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_on_a_phone_the_menu_opens_from_a_button_and_its_pages_fit(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    visitor = visit(viewport={"width": 390, "height": 844})
    page = visitor.page
    link = page.get_by_role("link", name="Audit", exact=True)
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    assert violations(visitor) == []
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    page.wait_for_url("**/audit/")
    # A reason wraps instead of pushing the page aside.
    page.goto("/flows/")
    wide = "[...document.querySelectorAll('td.reason')].map((one) => one.offsetWidth)"
    assert max(page.evaluate(wide), default=0) <= 400


def test_heads_of_a_long_table_stay_in_view_and_its_links_look_like_links(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    for number in range(30):
        world.flow(flow.source, world.cluster(f"spoke{number:02}"))
    page = visit(viewport={"width": 1440, "height": 700}).page
    page.goto("/flows/")
    table = page.get_by_role("region", name="Table of flows")
    table.evaluate("one => { one.scrollTop = 400; }")
    head, first = (page.locator(one).first.bounding_box() for one in ("thead th", ".scroll"))
    assert head is not None
    assert first is not None
    assert abs(head["y"] - first["y"]) < 2
    looks = """one => {
      const seen = getComputedStyle(one);
      return [seen.color !== getComputedStyle(document.body).color, seen.textDecorationColor];
    }"""
    differs, line = page.locator("tbody th a").first.evaluate(looks)
    assert differs
    assert not line.endswith("/ 0)")
    assert line != "rgba(0, 0, 0, 0)"


def test_a_state_is_a_word_a_shape_and_a_colour(visit: Callable[..., Visitor], flow: Flow) -> None:
    page = visit().page
    page.goto("/help/")
    looks = {
        state: page.evaluate(
            """state => {
              const sign = document.querySelector(`.state[data-state=${state}]`);
              const shape = getComputedStyle(sign, "::before");
              return [getComputedStyle(sign).color, shape.clipPath, shape.borderRadius,
                      shape.borderStyle, shape.backgroundImage].join("|");
            }""",
            state,
        )
        for state in ("running", "lagging", "failed", "paused", "unknown", "starting")
    }
    shapes = {look.split("|", 1)[1] for look in looks.values()}
    assert len(shapes) == len(looks)


def test_the_reasons_of_an_import_are_whole_at_1440_pixels(
    visit: Callable[..., Visitor], flow: Flow
) -> None:
    page = visit(viewport={"width": 1440, "height": 900}).page
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    text = f"""clusters = east, west
east.bootstrap.servers = e1:9092
west.bootstrap.servers = w1:9093
west.security.protocol = SASL_SSL
west.sasl.mechanism = SCRAM-SHA-512
west.sasl.jaas.config = {module} required username="mm2" password="hunter2";
east->west.enabled = true
"""
    page.goto("/imports/")
    page.fill("textarea", text)
    page.get_by_role("button", name="Preview").click()
    table = page.get_by_role("region", name="Table of lines")
    expect(table).to_be_visible()
    assert table.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    page.get_by_text("settings not in the text").click()
    assert table.evaluate("(box) => box.scrollWidth <= box.clientWidth")
