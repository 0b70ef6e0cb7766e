"""Every page for every role: it renders, gives a reason when it refuses, and keeps a strict CSP."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver

from controlplane.pages import urls as own_pages
from mirrors import urls as mirrors_pages
from mirrors.models import Comparison, FailoverRun, Flow, GroupOffset
from monitoring import urls as monitoring_pages
from monitoring.models import AlertRule, Channel
from tests.drill_runs import drill_rows
from tests.failback_rows import going_back
from tests.pages import world
from tests.pages.conftest import As
from tests.pages.page_list import OPEN_TO_ALL, PAGES, RANK

OIDC = {"oidc_authentication_init", "oidc_authentication_callback", "oidc-logout"}


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.busy()
    ended = {"state": "aborted", "ended_at": flow.since, "mark": "m", "requested_by": "tester"}
    FailoverRun.objects.create(pk=flow.pk, flow=flow, kind="simulation", **ended)
    asked = {"seconds": 60, "megabytes": 60, "requested_by": "tester"}
    Comparison.objects.create(pk=flow.pk, flow=flow, summary={"aspects": []}, **asked)
    world.gap(flow, pk=flow.pk)
    GroupOffset.objects.create(flow=flow, group="app", as_of=flow.since)
    going_back(flow)
    drill_rows(flow)
    if not flow.jobs.filter(pk=flow.pk).exists():
        world.job(flow, pk=flow.pk, state="stopped", ended_at=flow.since)
    AlertRule.objects.get_or_create(pk=1, defaults={"name": "R", "kind": "gap"})
    Channel.objects.create(pk=flow.pk, name="on-call", kind="webhook", target="https://x.example/")
    return flow


# Schedules that an older edition took break no page: these roles meet them, a viewer today's.
OLDER = {"operator": "0 0 31 4 *", "admin": "R R * * *"}


@pytest.mark.parametrize("role", RANK)
def test_each_role_sees_its_pages_and_is_refused_the_others_with_a_reason(
    signed_in: As, flow: Flow, role: str
) -> None:
    """No page carries a script, style or handler of its own."""
    browser = signed_in(role)
    if schedule := OLDER.get(role):
        flow.properties |= {"run.until": "end", "run.schedule": schedule}
        flow.save(update_fields=["properties"])
    for path, needed in PAGES:
        answer = browser.get(path.format(pk=flow.pk))
        text = answer.content.decode()
        if RANK[role] >= needed or path in OPEN_TO_ALL:
            assert answer.status_code == 200, path
            assert "default-src 'self'" in answer["Content-Security-Policy"]
            assert re.findall(r"<script(?![^>]*\bsrc=)", text) == [], path
            assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", text) == [], path
            assert text.count("<h1") == 1, path
        else:
            assert answer.status_code == 403, path
            assert "This needs the role" in text
            assert "reference" in text.lower()


def test_nobody_reads_anything_without_signing_in(client: Client, flow: Flow) -> None:
    for path, _ in PAGES:
        answer = client.get(path.format(pk=flow.pk))
        assert answer.status_code == 302, path
        assert answer["Location"].startswith("/login/?next="), path


def test_every_address_of_ours_is_in_these_lists_or_changes_something() -> None:
    """A page added later is tested too, or this says that it is not."""
    tested = {re.sub(r"\{pk\}", "1", path.split("?")[0]) for path, _ in PAGES}
    # A file to download is no page.
    changing = {
        "export-mm2",
        "failover-script",
        "token-revoke",
        "person-role",
        "person-token",
        "person-activate",
        "person-deactivate",
        "person-unlock",
        "person-end",
        "cluster-test",
        "logout",
        "login",
    }
    changing |= {"flow-plan-look", "flow-plan-apply", "password_change_done", "flow-figure"}
    changing |= {"flow-plan-follow", "flow-topic-configs", "flow-compression"}
    changing |= {"waiver-decide", "waiver-request", "flow-positions-apply"}
    changing |= {"alert-acknowledge", "alert-silence", "silence-end"}
    changing |= {"comparison-abort", "grant-take", "flow-labels", "runner-move"}
    changing |= {"host-drain", "host-end-drain", "pool-balance"}
    changing |= {"channel-test", "delivery-retry", "flow-schemas-compare"}
    changing |= {"flow-drill", "certificate-file"}
    # Open to everybody: tests/pages/test_drills.py asks them.
    changing |= {"verify", "verify-one"}
    changing |= {"failback-decide", "failback-groups", "failback-retry", "failback-close"}
    changing |= {"failback-switch"}
    changing |= {"flow-simulate", "failover-abort", "failover-steer", "flow-takeover-check"}
    changing |= {"failover-lift", "flow-left-behind-withdraw", "flow-failover-prepare"}
    # Needs a run of one application: tests/pages/test_application_failback.py asks it.
    changing |= {"application-failback", "application-failback-create", "application-orphans"}
    # Former tabs, which lead to the events.
    changing |= {"flow-transitions", "flow-audit"}
    # A file to download is no page.
    changing |= {"person-remove-codes", "evidence"}
    # Asked by the provider, or lead to it: tests/sign_in/test_keycloak.py.
    changing |= OIDC
    for module in (own_pages, mirrors_pages, monitoring_pages):
        for pattern in module.urlpatterns:
            assert isinstance(pattern, URLPattern)
            if pattern.name not in changing:
                assert any(pattern.pattern.match(path[1:]) for path in tested), pattern.name


def test_every_page_of_ours_names_the_right_it_needs() -> None:
    unmarked = [
        pattern.name
        for module in (own_pages, mirrors_pages, monitoring_pages)
        for pattern in module.urlpatterns
        if not hasattr(pattern.callback, "rights") and pattern.name not in {"login", *OIDC}
    ]
    assert unmarked == []
    assert get_resolver().url_patterns


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_forbidden_button_is_shown_disabled_and_names_the_missing_right(
    signed_in: As, flow: Flow, role: str
) -> None:
    client = signed_in(role)
    clusters = client.get("/clusters/").content.decode()
    assert "Needs the role admin; you are " + role in clusters
    assert re.search(r"<button[^>]*disabled[^>]*>Add cluster", clusters)
    page = client.get(f"/flows/{flow.pk}/").content.decode()
    refused = re.search(r"<button[^>]*disabled[^>]*needs? the role operator[^>]*>Pause", page, re.I)
    assert bool(refused) == (role == "viewer")


def test_a_fragment_is_the_live_part_of_the_same_page(viewer: Client, flow: Flow) -> None:
    whole = viewer.get("/flows/").content.decode()
    fragment = viewer.get("/flows/", headers={"HX-Request": "true"})
    part = fragment.content.decode().strip()
    assert part.startswith('<div id="live"')
    assert "<nav aria-label" not in part
    assert "primary→backup" in part
    assert "primary→backup" in whole
    assert "HX-Request" in fragment["Vary"]


def test_a_page_that_polls_is_not_kept_by_caches(viewer: Client, flow: Flow) -> None:
    assert viewer.get("/").headers["Cache-Control"] == "no-store"


def test_signing_in_and_out(client: Client, flow: Flow, signed_in: As) -> None:
    person = signed_in("operator")
    assert person.post("/logout/").status_code == 302
    assert person.get("/").status_code == 302
    wrong = client.post("/login/", {"username": "the-operator", "password": "no"})
    assert "do not match an active account" in wrong.content.decode()


def test_someone_without_a_role_can_still_sign_out(signed_in: As) -> None:
    assert signed_in("nobody").post("/logout/").status_code == 302


def test_each_key_leads_to_one_page_and_the_list_of_keys_names_them_all(
    admin: Client, flow: Flow
) -> None:
    text = admin.get("/help/").content.decode()
    keys = re.findall(r'data-key="(.)"', text)
    listed = re.findall(r"<kbd>g</kbd> <kbd>(.)</kbd>", text.partition('id="keys"')[2])
    assert sorted(keys) == sorted(set(keys)) == sorted(listed)
