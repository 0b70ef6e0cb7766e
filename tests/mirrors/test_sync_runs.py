"""Runs of sync tasks in the database: a slot is taken once, never two at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.sync.schedule import Outcome, Schedule, SyncTaskContext
from mirrors.models import Cluster, DutyRun, Flow
from mirrors.services.flows import commands
from mirrors.services.migration import takeover
from mirrors.services.sync import runs, scheduler

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ASKED: list[SyncTaskContext] = []


def look(context: SyncTaskContext) -> Outcome:
    ASKED.append(context)
    return Outcome(counts={"looked": 1}, reasons=("a was left: it is odd.",))


def refuse(context: SyncTaskContext) -> Outcome:
    raise KafkaRefused("Cluster two: the principal may not do that. Grant it.")


def collapse(context: SyncTaskContext) -> Outcome:
    raise ValueError("what nobody thought of")


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    ASKED.clear()
    acts = {"look": look, "refuse": refuse, "collapse": collapse}
    rows = tuple(
        scheduler.SyncTask(
            schedule=Schedule(name=name, does=f"Does {name}.", every_s=every), act=act
        )
        for (name, act), every in zip(acts.items(), (60, 3600, 3600), strict=True)
    )
    monkeypatch.setattr(scheduler, "TABLE", rows)


def run(flow: Flow, name: str, now: datetime = NOW) -> bool:
    return scheduler.run_task(flow_id=flow.pk, name=name, now=now)


def test_what_is_due_is_done_once_however_many_beats_there_are(flow: Flow) -> None:
    due = scheduler.due_tasks(now=NOW)
    assert (
        due
        == scheduler.due_tasks(now=NOW)
        == [(flow.pk, n) for n in ("look", "refuse", "collapse")]
    )
    assert [run(flow, "look"), run(flow, "look")] == [True, False]
    assert [context.flow_id for context in ASKED] == [flow.pk]
    assert (flow.pk, "look") not in scheduler.due_tasks(now=NOW)
    assert (flow.pk, "look") in scheduler.due_tasks(now=NOW + MINUTE)


def test_a_duty_never_runs_beside_itself(flow: Flow) -> None:
    assert runs.open_run(flow_id=flow.pk, name="look", slot=1, now=NOW) is not None
    assert runs.open_run(flow_id=flow.pk, name="look", slot=2, now=NOW) is None
    assert not run(flow, "look")


def test_a_run_whose_worker_was_lost_is_ended_and_made_up(flow: Flow) -> None:
    runs.open_run(flow_id=flow.pk, name="look", slot=1, now=NOW - 3 * MINUTE)
    assert (flow.pk, "look") in scheduler.due_tasks(now=NOW)
    assert run(flow, "look")
    assert "worker was lost" in DutyRun.objects.get(slot=1).error


def check(flow: Flow, at: datetime = NOW) -> DutyRun:
    commands.stop_flow(flow=flow, who="tester")
    flow.refresh_from_db()
    return takeover.request_check(flow=flow, seconds=1, now=at)


def test_a_takeover_check_that_no_worker_finished_is_not_said_to_be_repeated(flow: Flow) -> None:
    run = check(flow, NOW - 3 * MINUTE)
    assert run.state == "queued"
    assert runs.end_lost(now=NOW) == 1
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.error.endswith("Check again.")


def test_an_unexpected_error_ends_a_takeover_check_at_once(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "observe_mm2", lambda *_, **__: collapse)
    run = check(flow)
    assert not takeover.run_check(run_id=run.pk, seconds=1, start=True, who="tester")
    run.refresh_from_db()
    assert run.error.startswith("Unexpected AttributeError")
    assert (run.state, run.counts) == ("failed", {"quiet": 0})


def test_each_run_takes_declared_transitions_only(flow: Flow) -> None:
    taken = runs.open_run(flow_id=flow.pk, name="look", slot=1, now=NOW)
    assert taken is not None
    assert taken.state == "running"
    runs.close_run(run=taken, outcome=Outcome(counts={"failed": 1}))
    taken.refresh_from_db()
    assert taken.state == "partial"
    # It has ended, so nothing changes it again.
    runs.close_run(run=taken, outcome=Outcome(), error="Late.")
    taken.refresh_from_db()
    assert taken.state == "partial"
    requested = check(flow)
    claimed = runs.claim_run(run_id=requested.pk)
    assert claimed is not None
    assert (requested.state, claimed.state) == ("queued", "running")
    assert runs.claim_run(run_id=requested.pk) is None


def test_a_stopped_flow_has_no_duties_to_do(flow: Flow) -> None:
    commands.stop_flow(flow=flow, who="tester")
    assert scheduler.due_tasks(now=NOW) == []
    assert not run(flow, "look")


def test_duties_wait_for_a_cluster_that_does_not_answer(flow: Flow) -> None:
    Cluster.objects.filter(pk=flow.target_id).update(reachable=False)
    assert scheduler.due_tasks(now=NOW) == []
    flow.refresh_from_db()
    [first, *_] = scheduler.task_statuses(flow=flow, now=NOW)
    assert first.judgement.reason.startswith("two does not respond")


def test_a_refusal_is_kept_as_its_sentence_and_a_break_without_a_traceback(flow: Flow) -> None:
    assert run(flow, "refuse")
    assert run(flow, "collapse")
    errors = dict(DutyRun.objects.values_list("duty", "error"))
    assert errors["refuse"] == "Cluster two: the principal may not do that. Grant it."
    assert errors["collapse"].startswith("Unexpected ValueError: what nobody thought of.")


def test_equal_runs_of_a_frequent_duty_become_one_row_an_hour(flow: Flow) -> None:
    for number in range(4):
        assert run(flow, "look", NOW + number * MINUTE)
    row = DutyRun.objects.get(duty="look")
    assert (row.runs, row.totals, row.since) == (4, {"looked": 4}, NOW)
    assert run(flow, "look", NOW + timedelta(hours=1))
    assert DutyRun.objects.filter(duty="look").count() == 2


def test_each_rare_run_keeps_its_row(flow: Flow) -> None:
    for number in range(2):
        assert run(flow, "refuse", NOW + timedelta(hours=number))
    assert DutyRun.objects.filter(duty="refuse").count() == 2


def test_a_standing_says_what_was_last_and_what_is_next(flow: Flow) -> None:
    run(flow, "look")
    standing = scheduler.task_statuses(flow=flow, now=NOW + timedelta(seconds=10))[0]
    assert (standing.state, standing.next_at) == ("succeeded", NOW + MINUTE)
    assert standing.last is not None
    assert standing.last.reasons == ["a was left: it is odd."]
