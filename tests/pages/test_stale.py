"""With brokers and all processes stopped, pages answer from rows and mark what is stale."""

from __future__ import annotations

import re
import socket
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.serializers import DateTimeField

from mirrors.domain.settings.flow_control import SCHEDULE
from mirrors.models import Cluster, Flow, Sighting
from mirrors.tasks import show_sign
from monitoring.models import ClusterSweep
from tests.pages import world

PAGES = (
    "/",
    "/topology/",
    "/flows/",
    "/flows/{pk}/",
    "/flows/{pk}/partitions/",
    "/flows/{pk}/groups/",
    "/flows/{pk}/readiness/",
    "/flows/{pk}/charts/",
    "/clusters/",
    "/clusters/primary/",
    "/clusters/primary/groups/",
    "/runners/default/",
    "/schedules/",
    "/alerts/",
    "/api/v1/flows/",
    "/api/v1/topology/",
    "/metrics?partitions=1",
)


@pytest.fixture
def flow(db: None) -> Flow:
    """Nothing was heard of anybody for five minutes."""
    flow, then = world.busy(), timezone.now() - timedelta(minutes=5)
    Flow.objects.update(as_of=then)
    Cluster.objects.update(reachable=False, reason="No broker can be reached.")
    Sighting.objects.create(name="beat", kind="beat", host="h", pid=1, seen_at=then)
    ClusterSweep.objects.create(
        cluster=flow.source, as_of=then, stale_since=then, error="No broker can be reached."
    )
    return flow


def test_no_page_asks_anybody_but_the_database(
    viewer: Client, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError(f"a page connects to {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for path in PAGES:
        assert viewer.get(path.format(pk=flow.pk)).status_code == 200, path


def test_the_overview_says_what_is_stale_what_is_silent_and_what_is_away(
    viewer: Client, flow: Flow
) -> None:
    text = viewer.get("/").content.decode()
    assert 'data-state="stale"' in text
    assert "offsets stale since" in text
    assert 'data-state="unreachable"' in text
    # Beat, reconciler, worker and the watcher of alerts.
    assert text.count('data-state="missing"') == 4
    assert "Celery beat" in text


def test_when_all_figures_stand_still_the_reconciler_is_named_before_anybody_asks_the_runner(
    viewer: Client, flow: Flow
) -> None:
    Sighting.objects.all().delete()
    show_sign()
    now = timezone.now()
    Sighting.objects.create(
        name="r", kind="reconcile worker", host="h", pid=1, seen_at=now - timedelta(seconds=25)
    )
    Flow.objects.update(observed_state="running", as_of=now)
    assert "Reconciler is missing" not in viewer.get("/").content.decode()
    Flow.objects.update(as_of=now - timedelta(seconds=25))
    # Beat sent what the worker did a moment ago.
    assert "<strong>Reconciler is missing" in viewer.get("/").content.decode()


def test_a_flow_whose_source_does_not_answer_is_not_green_however_fresh_its_figures(
    viewer: Client, flow: Flow
) -> None:
    Flow.objects.update(as_of=timezone.now())
    for path in ("/", "/flows/", "/topology/", f"/flows/{flow.pk}/"):
        text = viewer.get(path).content.decode()
        assert "primary does not respond" in text, path
        assert not re.search(r'class="flow">primary→backup</(a|span)>.{0,80}"running"', text, re.S)


def test_figures_are_as_old_as_their_oldest_part_however_young_the_report(
    viewer: Client, flow: Flow
) -> None:
    """One broker of the source is away: the runner reports on."""
    now = timezone.now()
    seen = now.replace(microsecond=0) - timedelta(minutes=7)
    Flow.objects.update(as_of=now)
    world.owes(flow, observed_at=seen)
    topology = viewer.get("/api/v1/topology/").json()
    assert {row["as_of"] for row in topology["flows"] if row["id"] == flow.pk} == {_iso(seen)}
    row = viewer.get(f"/api/v1/flows/{flow.pk}/").json()
    assert row["owed"]["as_of"] == _iso(seen)
    assert re.search(r"7 min( \d s)? ago", _page(viewer, "/topology/"))
    Flow.objects.update(properties={SCHEDULE: "0 4 * * *"})
    (run,) = (one for one in viewer.get("/api/v1/schedules/").json()["results"])
    assert run["as_of"] == _iso(seen)
    assert re.search(r"7 min( \d s)? ago", _page(viewer, "/schedules/"))


def test_without_a_recent_look_at_the_source_the_rpo_is_a_lower_bound_on_every_page(
    viewer: Client, flow: Flow
) -> None:
    now = timezone.now()
    Cluster.objects.update(reachable=True)
    Flow.objects.update(as_of=now, observed_state="degraded")
    world.owes(flow, observed_at=now)
    assert "≥" not in _page(viewer, "/topology/")
    world.owes(flow, observed_at=now - timedelta(seconds=50))
    for path in ("/", "/flows/", "/topology/", f"/flows/{flow.pk}/", "/failovers/"):
        assert "≥" in _page(viewer, path), path
    row = viewer.get(f"/api/v1/flows/{flow.pk}/").json()
    assert row["owed"]["time_lag_certainty"] == "at_least"


def _iso(at: datetime) -> str:
    return DateTimeField().to_representation(at)  # type: ignore[no-any-return]


def test_a_flow_in_trouble_says_on_its_own_page_what_to_do(viewer: Client, flow: Flow) -> None:
    path = f"/flows/{flow.pk}/"
    for state, kind in (("degraded", "flow_degraded"), ("failed", "flow_failed")):
        Flow.objects.update(observed_state=state, reason="Refused.", as_of=timezone.now())
        assert f'<a href="/alerts/runbooks/{kind}/?flow={flow.pk}">What to do</a>' in _page(
            viewer, path
        )
    Flow.objects.update(observed_state="running", as_of=timezone.now() - timedelta(minutes=5))
    stale = f'<a href="/alerts/runbooks/stale/?flow={flow.pk}">What to do</a>'
    assert stale in _page(viewer, path)


def _page(viewer: Client, path: str) -> str:
    return viewer.get(path).content.decode()
