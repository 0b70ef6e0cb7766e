"""Drills: once per scheduled time, missed ones caught up once, compared with objectives."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from mirrors.domain.drills.objectives import Objectives
from mirrors.domain.errors import InvalidSettings
from mirrors.models import Certificate, Drill, DrillRun, FailoverRun, Flow
from mirrors.models.drills.readiness import proof_of, with_proof
from mirrors.services.drills import runs, schedules
from mirrors.services.drills.certificates import issuance
from mirrors.services.drills.objectives import set_objectives
from mirrors.services.errors import Conflict
from mirrors.services.failover import lifecycle
from mirrors.services.failover.simulation import simulator
from monitoring.domain.overview.data_loss import FlowSummary
from monitoring.overview.problems import proof_of_standbys
from tests.drill_runs import drilled, finished, simulated
from tests.pages import world

MONDAY = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def flow(db: None, signing_key: Path) -> Flow:
    return world.flow()


@pytest.fixture
def drill(flow: Flow) -> Drill:
    """Mondays at four by the clocks of Berlin: at three, in UTC."""
    drill = schedules.create_drill(
        flow=flow, schedule="0 4 * * 1", time_zone="Europe/Berlin", groups=["billing"], who="ann"
    )
    Drill.objects.update(since=MONDAY - HOUR)
    drill.refresh_from_db()
    return drill


def test_a_moment_of_the_schedule_is_taken_once_however_often_beat_asks(drill: Drill) -> None:
    assert schedules.open_due_runs(now=MONDAY) == 0
    assert schedules.next_at(drill, now=MONDAY) == MONDAY + HOUR
    due = MONDAY + HOUR + timedelta(seconds=3)
    assert schedules.open_due_runs(now=due) == 1
    assert schedules.open_due_runs(now=due) == 0
    run = finished(DrillRun.objects.get(), now=due)
    assert (run.slot, run.drill) == (int((MONDAY + HOUR).timestamp() * 1000), drill)
    assert (run.groups, run.requested_by) == (["billing"], "ann")
    assert run.schedule == "0 4 * * 1 Europe/Berlin"
    assert "Scheduled for 2026-11-23 03:00 UTC." in run.run.why
    assert schedules.open_due_runs(now=due + timedelta(days=6)) == 0
    assert schedules.open_due_runs(now=due + timedelta(days=7)) == 1


def test_two_beats_that_saw_the_same_moment_make_one_run(drill: Drill) -> None:
    due = MONDAY + HOUR
    seen = Drill.objects.select_related("flow__source", "flow__target").get()
    assert schedules._take(seen, due)
    assert not schedules._take(seen, due)
    assert DrillRun.objects.count() == 1


def test_moments_that_were_missed_are_made_up_once_and_say_so(drill: Drill) -> None:
    late = MONDAY + timedelta(days=15)
    assert schedules.next_at(drill, now=late) == MONDAY + HOUR + timedelta(days=14)
    assert schedules.open_due_runs(now=late) == 1
    run = finished(DrillRun.objects.get(), now=late)
    assert "It starts 23 h late: no worker ran it in time." in run.run.why
    assert schedules.open_due_runs(now=late) == 0


def test_what_was_missed_before_an_edit_or_while_off_is_not_made_up(drill: Drill) -> None:
    facts = {"schedule": "0 4 * * 1", "time_zone": "UTC", "groups": [], "who": "bob"}
    off = schedules.update_drill(drill=drill, enabled=False, **facts)
    assert schedules.next_at(off, now=MONDAY) is None
    assert schedules.open_due_runs(now=MONDAY + timedelta(days=30)) == 0
    on = schedules.update_drill(drill=off, enabled=True, **facts)
    assert schedules.open_due_runs(now=on.since) == 0
    assert on.changed_by == "bob"


def test_a_moment_that_comes_while_another_drill_runs_waits_for_its_end(drill: Drill) -> None:
    person = schedules.request_drill(flow=drill.flow, who="bob")
    due = MONDAY + HOUR
    assert schedules.open_due_runs(now=due) == 0
    finished(person, now=due)
    assert schedules.open_due_runs(now=due) == 1
    with pytest.raises(Conflict, match="is already running"):
        schedules.request_drill(flow=drill.flow, who="bob")


def test_a_drill_waits_for_another_simulation_of_its_flow_and_then_gives_up(flow: Flow) -> None:
    busy = simulator.request_simulation(flow=flow, who="bob")
    run = schedules.request_drill(flow=flow, who="ann")
    assert runs.begin_waiting(now=run.created_at) == []
    run.refresh_from_db()
    assert (run.state, run.run) == ("queued", None)
    assert runs.begin_waiting(now=run.created_at + 2 * HOUR) == []
    run.refresh_from_db()
    assert run.state == "failed"
    assert "could not start within an hour" in run.reason
    assert issuance.issue_missing(now=run.created_at) == 1
    assert not Certificate.objects.get().passed
    lifecycle.abort_run(run=busy, who="bob")
    assert drilled(flow).state == "no_objectives"


def test_objectives_as_of_the_beginning_judge_it(flow: Flow) -> None:
    world.topic(flow, offset_lag=7, time_lag_ms=42_000)
    strict = Objectives(rpo_seconds=30, rpo_records=5, rto_seconds=600)
    set_objectives(flow=flow, wanted=strict, who="eve")
    run = schedules.request_drill(flow=flow, who="ann")
    (begun,) = runs.begin_waiting(now=flow.as_of)
    set_objectives(flow=flow, wanted=Objectives(), who="mallory")
    simulated(FailoverRun.objects.get(pk=begun), loss=7)
    runs.judge_ended(now=flow.as_of)
    run.refresh_from_db()
    assert run.state == "failed"
    assert [row["objective"] for row in run.verdict["breaches"]] == ["rpo_records", "rpo_seconds"]
    assert "The RPO was missed by 12 s" in run.reason
    assert "The RPO in records was missed by 2" in run.reason
    issuance.issue_missing(now=flow.as_of)
    document = json.loads(Certificate.objects.get().text)
    assert document["result"] == "failed"
    assert document["breaches"] == run.verdict["breaches"]
    assert {"who": "eve", "did": "set the objectives"} in document["people"]


def test_an_rpo_is_not_measured_by_a_part_of_the_source_that_was_seen_long_ago(flow: Flow) -> None:
    """The runner reports on while one broker of the source is away."""
    world.topic(flow, offset_lag=7, time_lag_ms=1_000)
    world.owes(flow, observed_at=flow.as_of - timedelta(minutes=7))
    set_objectives(flow=flow, wanted=Objectives(rpo_seconds=30), who="eve")
    run = schedules.request_drill(flow=flow, who="ann")
    (begun,) = runs.begin_waiting(now=flow.as_of)
    simulated(FailoverRun.objects.get(pk=begun), loss=7)
    runs.judge_ended(now=flow.as_of)
    run.refresh_from_db()
    assert run.measured["rpo_ms"] is None
    assert "figures were 7 min old when the drill began" in run.reason


def test_a_failed_or_aborted_simulation_fails_the_drill_and_is_certified(flow: Flow) -> None:
    run = drilled(flow, state="failed", differs=1, proven=0)
    assert (run.state, run.certificate.passed) == ("failed", False)
    again = schedules.request_drill(flow=flow, who="ann")
    (begun,) = runs.begin_waiting(now=again.created_at)
    lifecycle.abort_run(run=FailoverRun.objects.get(pk=begun), who="bob")
    runs.judge_ended(now=again.created_at)
    again.refresh_from_db()
    assert (again.state, again.reason) == ("failed", "Aborted by bob.")
    issuance.issue_missing(now=again.created_at)
    document = json.loads(again.certificate.text)
    assert {"who": "bob", "did": "aborted it"} in document["people"]


def test_history_and_certificates_outlive_schedule_and_flow(drill: Drill) -> None:
    schedules.open_due_runs(now=MONDAY + HOUR)
    run = finished(DrillRun.objects.get(), now=MONDAY + HOUR)
    schedules.delete_drill(drill=drill, who="ann")
    waiting = schedules.request_drill(flow=drill.flow, who="ann")
    run.flow.delete()
    run.refresh_from_db()
    assert (run.flow, run.drill, run.run) == (None, None, None)
    assert issuance.verify_text(text=run.certificate.text.encode()).genuine
    assert runs.begin_waiting(now=MONDAY) == []
    waiting.refresh_from_db()
    assert "flow was deleted" in waiting.reason
    assert issuance.issue_missing(now=MONDAY) == 1


@pytest.mark.parametrize(
    ("facts", "field", "words"),
    [
        ({"schedule": "0 25 * * *"}, "schedule", "five cron fields"),
        ({"schedule": "0 0 31 2 *"}, "schedule", "never runs"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "time zone"),
        (
            {"groups": [str(number) for number in range(501)]},
            "groups",
            "more than the limit of 500",
        ),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_by_field(
    flow: Flow, facts: dict[str, object], field: str, words: str
) -> None:
    usual = {"schedule": "0 3 * * *", "time_zone": "UTC"}
    with pytest.raises(InvalidSettings) as refused:
        schedules.create_drill(flow=flow, who="ann", **{**usual, **facts})
    assert words in refused.value.fields[field][0]


def test_a_drill_of_some_groups_proves_nothing_of_the_standby_and_its_failure_counts(
    flow: Flow,
) -> None:
    def now_proven() -> tuple[str, str]:
        now = timezone.now()
        (row,) = with_proof(Flow.objects.all())
        summary = FlowSummary("east->west", "east", "running", key=flow.pk)
        found = proof_of_standbys([summary], [], now).sentence
        return proof_of(row, now).state, found

    def ended(state: str, *groups: str) -> None:
        DrillRun.objects.create(
            flow=flow, flow_name="east->west", groups=groups, state=state, ended_at=timezone.now()
        )

    untested = "No failover drill of all groups has been run yet."
    assert now_proven() == ("never", untested)
    ended("passed", "billing")
    assert now_proven() == ("never", untested)
    ended("passed")
    assert now_proven() == ("proven", "Drills: 1 of 1 standbys passed.")
    ended("passed", "billing")
    assert now_proven()[0] == "proven"
    ended("failed", "billing")
    assert now_proven() == ("failed", "Drills: 0 of 1 standbys passed, 1 failed (east→west).")
