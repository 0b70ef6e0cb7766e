"""A request sends the message of its run once, after the commit, from pages and from REST."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from mirrors import tasks
from mirrors.models import FailoverRun, Role
from mirrors.services import clusters, run_lifecycle
from mirrors.services.comparison import lifecycle as comparisons
from mirrors.services.drills import schedules
from mirrors.services.errors import Conflict
from mirrors.services.failback import lifecycle as failbacks
from mirrors.services.failover import lifecycle as failovers
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.simulation import simulator
from mirrors.services.migration import takeover
from mirrors.services.users import ensure_person
from tests.pages import world

pytestmark = pytest.mark.django_db

Sent = list[tuple[str, tuple[Any, ...]]]
Committed = Callable[..., Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Messages, which no queue receives here."""
    messages: Sent = []

    def signature(task: str, args: tuple[Any, ...]) -> Any:
        return SimpleNamespace(delay=lambda: messages.append((task, args)))

    monkeypatch.setattr(run_lifecycle, "current_app", SimpleNamespace(signature=signature))
    return messages


def test_each_kind_sends_one_message_after_the_commit(
    sent: Sent, django_capture_on_commit_callbacks: Committed
) -> None:
    stopped = {"desired_state": "stopped", "observed_state": "stopped"}
    flow, other = world.flow(), world.flow(**stopped)
    with django_capture_on_commit_callbacks(execute=True):
        test = clusters.request_test(cluster=flow.source, who="ann")
        comparison = comparisons.request_comparison(flow=flow, who="ann")
        simulation = simulator.request_simulation(flow=flow, who="ann")
        failback = failbacks.request_failback(flow=other, who="ann", why="Go.")
        check = takeover.request_check(
            flow=other, seconds=1, start=True, who="ann", now=timezone.now()
        )
        schedules.request_drill(flow=other, who="ann")
        assert sent == []
    assert sent == [
        ("mirrors.tasks.run_test", (test.pk,)),
        ("mirrors.tasks.run_comparison", (comparison.pk,)),
        ("mirrors.tasks.run_failover", (simulation.pk,)),
        ("mirrors.tasks.run_failback", (failback.pk,)),
        ("mirrors.tasks.check_takeover", (check.pk, other.pk, 1, True, "ann")),
        ("mirrors.tasks.run_drills", ()),
    ]
    known = {name for name in vars(tasks) if not name.startswith("_")}
    assert {name.removeprefix("mirrors.tasks.") for name, _ in sent} <= known


def test_a_refused_request_sends_nothing(
    sent: Sent, django_capture_on_commit_callbacks: Committed
) -> None:
    flow = world.flow()
    comparisons.request_comparison(flow=flow, who="ann")
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(Conflict):
        comparisons.request_comparison(flow=flow, who="ben")
    assert sent == []


def test_an_unreachable_queue_is_logged_and_the_request_is_stored(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: Committed,
) -> None:
    def refuse(task: str, args: object) -> None:
        raise ConnectionRefusedError("no queue")

    monkeypatch.setattr(run_lifecycle, "current_app", SimpleNamespace(signature=refuse))
    with django_capture_on_commit_callbacks(execute=True):
        run = comparisons.request_comparison(flow=world.flow(), who="ann")
    assert "no queue" in caplog.text
    run.refresh_from_db()
    assert run.state == "queued"


def test_a_run_that_needs_an_approval_is_sent_when_a_second_person_approves(
    sent: Sent, django_capture_on_commit_callbacks: Committed
) -> None:
    flow = world.flow()
    simulation = FailoverRun.objects.create(
        flow=flow, kind="simulation", state="succeeded", requested_by="ann", plan={},
        ended_at=timezone.now(),
    )  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        run = failovers.request_run(
            flow=flow, kind="switchover", who="ann", steps=[("pause", "Pause")],
            simulation=simulation, state="waiting", waits_for="approval", reason="Approve it.",
        )  # fmt: skip
    assert sent == []
    with pytest.raises(Conflict, match="another person must approve"):
        commands.approve(run=run, who="ann")
    with django_capture_on_commit_callbacks(execute=True):
        ensure_person(username="ben", password=None, role=Role.ADMIN)
        run = commands.approve(run=run, who="ben")
    assert (run.state, run.approved_by) == ("running", "ben")
    assert sent == [("mirrors.tasks.run_failover", (run.pk,))]


def test_an_abort_ends_a_queued_run_and_sends_a_waiting_one_to_a_worker(
    sent: Sent, django_capture_on_commit_callbacks: Committed
) -> None:
    queued = FailoverRun.objects.create(flow=world.flow(), kind="failover", requested_by="ann")
    waiting = FailoverRun.objects.create(
        flow=world.flow(), kind="failover", state="waiting", waits_for="pause", requested_by="ann"
    )
    with django_capture_on_commit_callbacks(execute=True):
        assert failovers.abort_run(run=queued, who="ben").state == "aborted"
        assert failovers.abort_run(run=waiting, who="ben").state == "running"
    assert sent == [("mirrors.tasks.run_failover", (waiting.pk,))]


def test_a_takeover_check_is_claimed_once() -> None:
    flow = world.flow(desired_state="stopped", observed_state="stopped")
    run = takeover.request_check(flow=flow, seconds=1, now=timezone.now())
    assert takeover.claim_run(run_id=run.pk) is not None
    assert takeover.claim_run(run_id=run.pk) is None


def test_a_heartbeat_of_a_run_without_an_abort_only_says_whether_it_ended() -> None:
    run = failbacks.request_failback(
        flow=world.flow(desired_state="stopped", observed_state="stopped"), who="ann"
    )
    rows = type(run).objects.filter(pk=run.pk, ended_at=None)
    assert run_lifecycle.heartbeat(rows, reason="Reading.") == ""
    failbacks.close_failback(run=run, who="ann", why="")
    assert run_lifecycle.heartbeat(rows, reason="Reading.") == "Another process ended the run."
