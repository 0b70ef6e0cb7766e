"""Runbooks name the pages as they are called, and link to those of the flow in question."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from mirrors.models import Flow
from mirrors.views.flows.tabs import PARTS, SECTIONS, places
from monitoring.alerts import links
from monitoring.domain.alerts.rules import KINDS
from monitoring.models import Alert, AlertRule
from tests.pages import world

FOLDER = settings.BASE_DIR / "docs" / "runbooks"
# Pages that no flow has, and buttons.
OTHERS = {
    *("Runners", "Clusters", "Compare", "Component health", "More", "Start"),
    *("Start beside other writers", "Take over from MirrorMaker 2"),
}
# Chapters of the operations guide.
GUIDES = {"Data loss: decide on a gap", "Runners, hosts and Spark"}


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(world.cluster("primary"), world.cluster("backup"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_runbook_names_places_by_tab_and_part(kind: str) -> None:
    text = (FOLDER / f"{kind}.md").read_text(encoding="utf-8")
    names = set(re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", text))
    known = {*places(1), *OTHERS}
    unknown = {name for name in names if name not in known and not name.startswith("Not started:")}
    unknown -= {"Describe", "Read", "Write", "Paused", "Running", "Refused", *GUIDES}
    assert unknown == set(), f"{kind}.md names places that no page has"
    former = {PARTS[name].label for _, parts in SECTIONS for name in parts if name in PARTS}
    assert names & (former - known) == set()


def test_every_place_is_a_page(viewer: Client, flow: Flow) -> None:
    assert "Health > Gaps" in places(flow.pk)
    for address in places(flow.pk).values():
        assert viewer.get(address).status_code == 200, address


def test_with_a_flow_the_places_are_links_to_it(viewer: Client, flow: Flow) -> None:
    text = viewer.get(f"/alerts/runbooks/stands/?flow={flow.pk}").content.decode()
    assert f'<a href="/flows/{flow.pk}/jobs/">Events &gt; Jobs and log</a>' in text
    assert f'<a href="/flows/{flow.pk}/partitions/">Topics &amp; partitions &gt; Partitions' in text
    assert f'href="../open_transaction/?flow={flow.pk}"' in text
    assert "primary→backup" in text


@pytest.mark.parametrize("given", ["", "?flow=99999", "?flow=x"])
def test_without_a_flow_the_places_are_names(viewer: Client, flow: Flow, given: str) -> None:
    text = viewer.get(f"/alerts/runbooks/stands/{given}").content.decode()
    assert "<em>Events &gt; Jobs and log</em>" in text
    assert '<a href="/">Component health</a>' in text


def test_an_alert_leads_to_its_runbook_for_its_flow(flow: Flow) -> None:
    rule = AlertRule.objects.get(kind="gap", flow=None)
    facts = {"subject": f"flow:{flow.pk}", "severity": "critical", "fired_at": timezone.now()}
    alert = Alert(rule=rule, flow=flow, **facts)
    assert links.runbook_of(alert) == f"/alerts/runbooks/gap/?flow={flow.pk}"
    rule.runbook = "https://wiki.example/gap"
    assert links.runbook_of(alert) == "https://wiki.example/gap"
