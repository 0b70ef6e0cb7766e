"""The schedules page and its REST list: next runs, records to replicate, last runs."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER
from mirrors.models import Flow
from tests.pages import world

NIGHTLY = {"run.until": "end", "run.schedule": "30 2 * * *"}


def _rests(flow: Flow, who: str = RECONCILER) -> None:
    facts = {"field": "desired_state", "from_state": "running", "to_state": "stopped"}
    world.transition(flow, who=who, when=timezone.now() - timedelta(minutes=1), **facts)


@pytest.fixture
def nightly(db: None) -> Flow:
    """It rests between two runs, the last of which copied 1,200 records; another flow is plain."""
    world.flow(world.cluster("east"), world.cluster("west"))
    flow = world.flow(
        world.cluster("primary"),
        world.cluster("backup"),
        properties=NIGHTLY,
        desired_state="stopped",
        observed_state="stopped",
    )
    world.topic(flow, offset_lag=4112, time_lag_ms=38_000)
    ended = {"state": "stopped", "ended_at": timezone.now(), "reason": "Reached the ends."}
    world.job(flow, records=1200, **ended)
    _rests(flow)
    return flow


def _text(client: Client, query: str = "") -> str:
    answer = client.get(f"/schedules/{query}")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_it_says_what_comes_next_what_it_would_move_and_what_the_last_run_moved(
    viewer: Client, nightly: Flow
) -> None:
    text = _text(viewer)
    coming, rest = text.split(" Coming up ")[1].split(" Last runs ")
    assert re.search(r"02:30.* primary→backup 4,112 records The next run starts at", coming)
    assert "east→west" not in text
    assert re.search(r"primary→backup .*stopped .*1,200 .*Reached the ends\.", rest)


def test_what_a_person_stopped_is_held_and_not_coming(viewer: Client, nightly: Flow) -> None:
    _rests(nightly, who="ana")
    text = _text(viewer)
    assert "No scheduled run" in text
    assert "Stopped by a person" in text


def test_a_run_whose_moment_passed_during_the_last_one_is_due(
    viewer: Client, nightly: Flow
) -> None:
    began = {"who": "ana", "when": timezone.now() - timedelta(days=2), "to_state": "running"}
    world.transition(nightly, field="desired_state", from_state="stopped", **began)
    paused = {"who": "ana", "when": timezone.now() - timedelta(hours=1), "to_state": "running"}
    world.transition(nightly, field="desired_state", from_state="paused", **paused)
    _rests(nightly)
    assert "The next run is due and starts in a moment." in _text(viewer)


def test_a_running_one_says_until_where(viewer: Client, nightly: Flow) -> None:
    Flow.objects.filter(pk=nightly.pk).update(desired_state="running", observed_state="running")
    assert "Running until the end offsets as of its start are replicated." in _text(viewer)


def test_without_a_schedule_it_says_how_to_have_one(viewer: Client) -> None:
    world.flow()
    assert "No flow has a schedule" in _text(viewer)


def test_a_stopped_flow_has_to_replicate_what_its_source_has_grown_by(
    viewer: Client, nightly: Flow
) -> None:
    world.owes(nightly, offset_lag=9001)
    assert "primary→backup 9,001 records" in _text(viewer)


def test_it_can_be_filtered_and_taken_as_a_file(viewer: Client, nightly: Flow) -> None:
    assert "No flow matches" in _text(viewer, "?q=nothing")
    lines = viewer.get("/schedules/?as=csv").getvalue().decode().splitlines()
    assert lines[0].startswith("label,observed_state,schedule,until,next_at,offset_lag")
    assert lines[1].startswith("primary->backup,stopped,30 2 * * *,end,")
    assert json.loads(viewer.get("/schedules/?as=json&q=nothing").getvalue()) == []


def test_many_take_no_more_queries_than_one(viewer: Client, nightly: Flow) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert viewer.get(path).status_code == 200
        return len(seen)

    few = {path: queries(path) for path in ("/schedules/", "/api/v1/schedules/")}
    for _ in range(20):
        flow = world.flow(properties=NIGHTLY)
        world.job(flow)
    assert {path: queries(path) for path in few} == few
    assert max(few.values()) <= 10


def test_over_rest_it_is_a_paged_list(viewer: Client, nightly: Flow) -> None:
    answer = viewer.get("/api/v1/schedules/").json()
    assert answer["count"] == 1
    row = answer["results"][0]
    assert (row["name"], row["state"]) == ("primary->backup", "waiting")
    assert row["next_at"].endswith("02:30:00Z")
    assert (row["offset_lag"], row["last_records"]) == (4112, 1200)
    assert viewer.get("/api/v1/schedules/?source=mars").json()["count"] == 0


def test_the_page_of_a_flow_says_until_when_it_runs(viewer: Client, nightly: Flow) -> None:
    flows = Flow.objects.filter(pk=nightly.pk)
    flows.update(desired_state="running", observed_state="running")
    page = viewer.get(f"/flows/{nightly.pk}/").content.decode()
    assert (
        "Running until the end offsets as of its start are replicated. The next run starts at"
        in page
    )
    flows.update(properties={})
    assert "Running until" not in viewer.get(f"/flows/{nightly.pk}/").content.decode()


@pytest.mark.parametrize("desired", ["running", "paused", "stopped"])
@pytest.mark.parametrize("bounds", [{"run.until": "end"}, {"run.window.minutes": "60"}])
def test_a_schedule_that_never_comes_and_that_an_older_edition_took_breaks_no_page(
    viewer: Client, nightly: Flow, desired: str, bounds: dict[str, str]
) -> None:
    flows = Flow.objects.filter(pk=nightly.pk)
    flows.update(properties={**bounds, "run.schedule": "0 0 31 4 *"}, desired_state=desired)
    for path in ("/schedules/", f"/flows/{nightly.pk}/", "/"):
        assert viewer.get(path).status_code == 200, path
    [row] = viewer.get("/api/v1/schedules/").json()["results"]
    assert row["next_at"] is None
    assert ("no day matches run.schedule=0 0 31 4 *" in _text(viewer)) == (desired == "stopped")


def test_what_is_not_known_has_no_unit_and_many_offsets_can_wrap(
    viewer: Client, nightly: Flow
) -> None:
    nightly.topics.all().delete()
    bounds = {"run.until": "orders:0:5,orders:1:7"}
    nightly.properties = bounds
    nightly.save()
    assert "records" not in _text(viewer).partition(" Flows ")[0]
    assert "orders:0:5, orders:1:7" in _text(viewer)
    assert f'"until": "{bounds["run.until"]}"' in json.dumps(
        json.loads(viewer.get("/schedules/?as=json").getvalue())
    )


def test_between_two_windows_it_says_what_waits_and_while_one_is_open_when_it_closes(
    viewer: Client, nightly: Flow
) -> None:
    later = timezone.now() + timedelta(days=2)
    schedule = f"{later.minute} {later.hour} {later.day} {later.month} *"
    window = {"run.schedule": schedule, "run.window.minutes": "480"}
    flows = Flow.objects.filter(pk=nightly.pk)
    flows.update(properties={**window, "run.schedule.zone": "Etc/UTC"})
    text = _text(viewer)
    opens = f"which opens at {later:%Y-%m-%d %H:%M} UTC."
    assert f"4,112 records wait for the window, {opens}" in text
    assert "Etc/UTC" in text
    row = viewer.get("/api/v1/schedules/").json()["results"][0]
    assert (row["state"], row["window_minutes"], row["zone"]) == ("waiting", 480, "Etc/UTC")
    assert (row["ends_at"], row["offset_lag"]) == (None, 4112)
    flows.update(desired_state="running", observed_state="running")
    row = viewer.get("/api/v1/schedules/").json()["results"][0]
    closes = later.replace(second=0, microsecond=0) + timedelta(hours=8)
    assert (row["state"], row["ends_at"]) == ("running", f"{closes:%Y-%m-%dT%H:%M:%SZ}")
    assert f"until its window closes at {closes:%Y-%m-%d %H:%M} UTC" in row["sentence"]
