"""The tabs history, audit and jobs of a flow, and the audit page."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.models import Cluster, FailoverRun, Flow, HeartbeatState, SettingChange, Transition
from mirrors.models.audit.transitions import record
from mirrors.services.flows import commands, settings
from monitoring.models import Alert, AlertRule
from tests.pages import world


@pytest.fixture
def edited(pair: tuple[Cluster, Cluster]) -> Flow:
    """Made by ana with one setting; ben changed it, added one; our own process stopped it."""
    world.runner()
    flow = settings.create_flow(
        source=pair[0], target=pair[1], properties={"topics": "orders"}, who="ana"
    )
    after = {"topics": "orders, payments", "tasks.max": "4"}
    flow = settings.update_flow(flow=flow, properties=after, who="ben")
    commands.pause_flow(flow=flow, who="ben", why="A drill of theirs.")
    world.transition(flow, who="reconciler", kind="process", why="Seen by us.")
    return flow


def _text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    text = answer.content.decode().split('<div id="live"')[1].split("<dialog")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_every_changed_setting_is_kept_with_who_before_and_after(edited: Flow) -> None:
    rows = SettingChange.objects.filter(flow=edited).order_by("pk")
    facts = [(row.who, row.generation, row.key, row.before, row.after) for row in rows]
    assert facts == [
        ("ana", 1, "topics", None, "orders"),
        ("ben", 2, "tasks.max", None, "4"),
        ("ben", 2, "topics", "orders", "orders, payments"),
    ]


def test_an_edit_that_changes_nothing_leaves_no_row_and_another_runner_does(edited: Flow) -> None:
    before = SettingChange.objects.count()
    settings.update_flow(flow=edited, properties=edited.properties, who="ben")
    assert SettingChange.objects.count() == before
    settings.update_flow(flow=edited, runner=world.runner("other"), who="ben")
    last = SettingChange.objects.latest("pk")
    assert (last.key, last.before, last.after) == ("runner", "default", "other")


def test_the_history_is_a_tab_with_search_and_files(viewer: Client, edited: Flow) -> None:
    page = f"/flows/{edited.pk}/history/"
    assert "topics orders orders, payments ben 2" in _text(viewer, page)
    assert "tasks.max" not in _text(viewer, f"{page}?q=payments")
    lines = viewer.get(f"{page}?as=csv&sort=when").getvalue().decode().splitlines()
    assert lines[0] == "when,key,before,after,who,generation"
    assert len(lines) == 4
    assert "No change matches" in _text(viewer, f"{page}?q=nothing")
    configuration = _text(viewer, f"/flows/{edited.pk}/configuration/")
    assert "topics orders orders, payments ben 2" in configuration


def test_over_rest_the_history_is_paged_and_filtered(viewer: Client, edited: Flow) -> None:
    answer = viewer.get(f"/api/v1/flows/{edited.pk}/history/?key=tasks.max").json()
    assert answer["count"] == 1
    row = answer["results"][0]
    assert (row["who"], row["before"], row["after"]) == ("ben", None, "4")


def test_the_audit_of_a_flow_is_what_people_did_with_their_reasons(
    viewer: Client, edited: Flow
) -> None:
    run = FailoverRun.objects.create(flow=edited, kind="simulation", mark="m", requested_by="cara")
    record(run, field="state", before="", who="cara", why="Before the audit.")
    text = _text(viewer, f"/flows/{edited.pk}/events/?by=people")
    assert "A drill of theirs." in text
    assert "Before the audit." in text
    assert "Seen by us." not in text
    rows = viewer.get(f"/api/v1/flows/{edited.pk}/audit/?who=cara").json()["results"]
    assert [(row["to"], row["why"]) for row in rows] == [("queued", "Before the audit.")]
    file = json.loads(viewer.get(f"/flows/{edited.pk}/events/?as=json&by=people").getvalue())
    assert {"who": "ben", "why": "A drill of theirs."}.items() <= {
        key: file[1][key] for key in ("who", "why")
    }.items()


def test_events_have_the_jobs_the_people_and_the_processes_of_a_time(
    viewer: Client, edited: Flow
) -> None:
    job = world.job(edited, state="failed", ended_at=timezone.now())
    world.transition(edited, subject="job", subject_id=job.pk, to_state="failed", why="Of a job.")
    world.transition(edited, when=timezone.now() - timedelta(days=3), why="Long before.")
    page = f"/flows/{edited.pk}/events/"
    text = _text(viewer, page)
    for words in ("A drill of theirs.", "Seen by us.", "Of a job.", "Long before."):
        assert words in text
    assert f"/flows/{edited.pk}/jobs/{job.pk}/" in viewer.get(page).content.decode()
    night = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    assert "Long before." not in _text(viewer, f"{page}?from={night}")
    before = _text(viewer, f"{page}?until={night}")
    assert "Long before." in before
    assert "Of a job." not in before
    assert "Seen by us." not in _text(viewer, f"{page}?by=people")
    lines = viewer.get(f"{page}?as=csv&until={night}").getvalue().decode().splitlines()
    assert len(lines) == 2
    assert viewer.get(f"{page}?from=9999-12-31T23:59:59-23:00&until=x").status_code == 200


def test_the_former_tabs_lead_to_the_events_with_their_filters(
    viewer: Client, edited: Flow
) -> None:
    path = f"/flows/{edited.pk}"
    assert viewer.get(f"{path}/transitions/").url == f"{path}/events/"
    assert viewer.get(f"{path}/transitions/?q=x").url == f"{path}/events/?q=x"
    assert viewer.get(f"{path}/audit/?as=csv").url == f"{path}/events/?as=csv&by=people"


def test_a_viewer_reads_no_address_of_a_person(viewer: Client, admin: Client, edited: Flow) -> None:
    Transition.objects.update(address="192.0.2.7")
    file = f"/flows/{edited.pk}/events/?as=json"
    assert b"192.0.2.7" not in viewer.get(file).getvalue()
    assert b"192.0.2.7" in admin.get(file).getvalue()


def test_the_audit_of_all_leaves_our_own_processes_out_until_asked(
    viewer: Client, edited: Flow
) -> None:
    assert "Seen by us." not in _text(viewer, "/audit/")
    assert "Seen by us." in _text(viewer, "/audit/?by=everybody")
    assert "A drill of theirs." not in _text(viewer, "/audit/?subject=cluster")
    night = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    assert "A drill of theirs." not in _text(viewer, f"/audit/?until={night}")
    assert "A drill of theirs." in _text(viewer, f"/audit/?from={night}")
    assert "failoverrun" not in viewer.get("/audit/").content.decode().replace(
        'value="failoverrun"', ""
    )
    lines = viewer.get("/audit/?as=csv&q=drill").getvalue().decode().splitlines()
    assert len(lines) == 2
    assert lines[1].split(",")[1:4] == ["ben", "flow", "primary->backup"]
    assert viewer.get("/api/v1/audit/?search=drill").json()["count"] == 1


def test_a_job_has_a_page_with_its_error_whole_and_its_log(viewer: Client) -> None:
    flow = world.busy()
    error = "The runner 4211 is gone. " + "x" * 900 + " end of it"
    job = world.job(flow, state="failed", ended_at=timezone.now(), error=error)
    world.transition(flow, subject="job", subject_id=job.pk, to_state="failed", why="Of the job.")
    old = timezone.now() - timedelta(days=1)
    world.transition(flow, when=old, why="Long before.")
    text = _text(viewer, f"/flows/{flow.pk}/jobs/{job.pk}/")
    assert error in text
    assert "Of the job." in text
    assert "Long before." not in text
    assert (
        f"/flows/{flow.pk}/jobs/{job.pk}/" in viewer.get(f"/flows/{flow.pk}/jobs/").content.decode()
    )
    other = world.flow()
    assert viewer.get(f"/flows/{other.pk}/jobs/{job.pk}/").status_code == 404


def test_heartbeats_of_both_directions_stand_side_by_side(viewer: Client) -> None:
    flow = world.busy()
    back = world.flow(flow.target, flow.source)
    now = timezone.now()
    # Arrivals are looked at every 15 s: one of a moment before the last look is none too late.
    looked = now - timedelta(seconds=14)
    seen = looked - timedelta(seconds=5)
    HeartbeatState.objects.create(flow=flow, seen_at=seen, latency_ms=120, as_of=looked)
    late = now - timedelta(minutes=5)
    HeartbeatState.objects.create(flow=back, seen_at=late, place="target", as_of=now)
    text = _text(viewer, f"/flows/{flow.pk}/heartbeats/")
    assert re.search(r"primary→backup arrives .* 0\.1 s", text)
    assert re.search(r"backup→primary late 5 min", text)
    back.delete()
    assert "No flow leads back" in _text(viewer, f"/flows/{flow.pk}/heartbeats/")


def test_alerts_of_a_flow_and_the_rules_that_watch_it_are_a_tab(viewer: Client) -> None:
    flow, other = world.busy(), world.flow()
    rule = AlertRule.objects.create(name="Far behind", kind="time_lag", threshold=10, flow=flow)
    AlertRule.objects.create(name="Of another", kind="time_lag", threshold=10, flow=other)
    facts = {"rule": rule, "rule_name": rule.name, "severity": "critical", "state": "firing"}
    Alert.objects.create(flow=flow, subject=f"flow:{flow.pk}", sentence="38 s behind.", **facts)
    Alert.objects.create(flow=other, subject=f"flow:{other.pk}", sentence="Elsewhere.", **facts)
    text = _text(viewer, f"/flows/{flow.pk}/alerts/")
    assert "38 s behind." in text
    assert "Elsewhere." not in text
    assert "Far behind" in text
    assert "Of another" not in text
    # Read as on the page of all rules: 6 h, not 21600 s; and what to do stands beside what fires.
    assert re.search(r"Data loss by retention within 6 h .*? 6 h 30 s critical", text)
    assert "21600" not in text
    assert "at once" in text
    assert (
        f'href="/alerts/runbooks/time_lag/?flow={flow.pk}"'
        in viewer.get(f"/flows/{flow.pk}/alerts/").content.decode()
    )


@pytest.mark.parametrize("part", ["history", "events", "heartbeats", "alerts"])
def test_a_tab_takes_the_same_few_queries_for_many_rows(viewer: Client, part: str) -> None:
    flow = world.busy()
    path = f"/flows/{flow.pk}/{part}/"

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert viewer.get(path).status_code == 200
        return len(seen)

    def more(numbers: range) -> None:
        for number in numbers:
            SettingChange.objects.create(flow=flow, generation=number, who="ana", key="topics")
            world.transition(flow, who="ana")
            Alert.objects.create(flow=flow, subject=f"x:{number}", state="firing", severity="info")

    more(range(1))
    few = queries()
    more(range(1, 30))
    assert queries() == few
    assert few <= 12
