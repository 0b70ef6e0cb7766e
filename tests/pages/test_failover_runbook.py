"""Pages of switchovers and failovers: what they require to begin, and what they show."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mirrors import tasks
from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.models import FailoverRun, FailoverStep, Flow, Transition
from tests.api.test_failover_runs import PLAN
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


@pytest.fixture
def operator(signed_in: As) -> Client:
    return signed_in("operator")


@pytest.fixture
def simulation(flow: Flow) -> FailoverRun:
    return simulated_for(flow)


def simulated_for(flow: Flow, **plan: Any) -> FailoverRun:
    """One that just succeeded."""
    now = timezone.now()
    facts = {"state": "succeeded", "requested_by": "ann", "mark": "m", "plan": {**PLAN, **plan}}
    facts |= {"ended_at": now, "swept_at": now, "reason": "12 records would be lost.", "result": {}}
    return FailoverRun.objects.create(flow=flow, kind="simulation", **facts)


def test_without_a_fresh_simulation_the_page_offers_one(operator: Client, flow: Flow) -> None:
    text = operator.get(f"/flows/{flow.pk}/failover/").content.decode()
    assert "Simulate it first" in text
    assert "Switch over primary to backup</button>" not in text


def test_the_failover_page_has_a_card_for_each_flow(
    operator: Client, viewer: Client, flow: Flow
) -> None:
    """Nothing was simulated yet, so whether ACLs can fence is unknown."""
    text = operator.get("/failovers/").content.decode()
    for words in ("primary→backup", "of 100", "RPO now", "unknown until a simulation checks it"):
        assert words in text
    assert f'action="/flows/{flow.pk}/failover/switchover/"' in text
    assert f'action="/flows/{flow.pk}/failover/switchover/"' not in (
        viewer.get("/failovers/").content.decode()
    )
    simulated_for(flow, fence={"how": "acl", "refused": "it has no authorizer.", "bare": []})
    text = operator.get("/failovers/").content.decode()
    assert "ACLs cannot fence primary: it has no authorizer. A person fences" in text
    assert "No flow matches" in operator.get("/failovers/?flow=nosuch").content.decode()


def test_one_click_simulates_and_leads_to_the_confirmation(operator: Client, flow: Flow) -> None:
    path = f"/flows/{flow.pk}/failover/"
    asked = operator.post(f"{path}switchover/")
    run = FailoverRun.objects.get()
    assert asked["Location"] == f"{path}?kind=switchover"
    page = operator.get(asked["Location"]).content.decode()
    assert f"Open simulation {run.pk}" in page
    assert 'data-every="1"' in page
    # Asked again, it is the same simulation.
    operator.post(f"{path}failover/")
    facts = {"state": "succeeded", "ended_at": timezone.now(), "plan": PLAN, "reason": "12 lost."}
    FailoverRun.objects.update(**facts)
    page = operator.get(asked["Location"]).content.decode()
    assert "Switch over primary to backup</button>" in page
    assert "data-every" not in page
    # A fresh simulation is used.
    assert operator.post(f"{path}failover/")["Location"] == f"{path}?kind=failover"
    page = operator.get(f"{path}?kind=failover").content.decode()
    assert "Fail over to backup without waiting</button>" in page
    assert FailoverRun.objects.count() == 1
    run = FailoverRun.objects.create(flow=flow, kind="switchover", state="running", mark="x")
    FailoverRun.objects.exclude(pk=run.pk).update(ended_at=timezone.now() - timedelta(hours=1))
    assert operator.post(f"{path}switchover/")["Location"] == f"/failovers/{run.pk}/"


def test_warnings_that_need_a_person_are_open_and_reports_are_folded(
    operator: Client, flow: Flow
) -> None:
    loss = {"code": "loss", "where": "orders-0", "sentence": "orders-0: 12 would be lost."}
    rules = {"code": "rules_left", "where": "backup", "sentence": "Grant WRITE on backup."}
    simulated_for(flow, warnings=[loss, rules])
    page = operator.get(f"/flows/{flow.pk}/failover/?kind=switchover").content.decode()
    manual, _, folded = page.partition('<details class="more"><summary>Other warnings: 1')
    assert "Grant WRITE on backup." in manual
    assert "orders-0: 12 would be lost." in folded


def test_the_form_shows_what_is_touched_and_begins_only_with_alias_and_reason(
    operator: Client, flow: Flow, simulation: FailoverRun
) -> None:
    path = f"/flows/{flow.pk}/failover/"
    assert path in operator.get(f"/failovers/{simulation.pk}/").content.decode()
    assert "Choose one." in operator.get(path).content.decode()
    text = operator.get(f"{path}?kind=switchover").content.decode()
    assert "12 records would be lost." in text
    assert "ACLs deny WRITE" in text
    given = {"simulation": simulation.pk, "kind": "switchover"}
    refused = operator.post(path, {**given, "confirm_alias": "primary", "reason": ""})
    assert refused.status_code == 422
    assert "exactly" in world.error_at(refused.content.decode(), "confirm_alias")
    assert "Give a reason" in world.error_at(refused.content.decode(), "reason")
    assert operator.post(path, {**given, "kind": "x", "reason": "y"}).status_code == 422
    begun = operator.post(path, {**given, "confirm_alias": "backup", "reason": "tonight"})
    run = FailoverRun.objects.get(kind="switchover")
    assert begun["Location"] == f"/failovers/{run.pk}/"
    again = operator.post(path, {**given, "confirm_alias": "backup", "reason": "tonight"})
    assert again.status_code == 409


def test_a_simulation_of_some_groups_is_not_taken_for_one_of_all(
    operator: Client, flow: Flow, simulation: FailoverRun
) -> None:
    FailoverRun.objects.filter(pk=simulation.pk).update(groups=["invoices"])
    path = f"/flows/{flow.pk}/failover/"
    assert "Simulate it first" in operator.get(path).content.decode()
    page = operator.get(f"/failovers/{simulation.pk}/").content.decode()
    assert "Only these groups" in page
    assert f"{path}?kind=switchover&amp;simulation={simulation.pk}" in page
    begin = operator.get(f"{path}?kind=failover&simulation={simulation.pk}").content.decode()
    assert "Only these groups" in begin
    assert f'name="simulation" value="{simulation.pk}"' in begin


def test_a_run_that_waits_for_a_person_says_for_what_and_has_the_buttons(
    signed_in: As, flow: Flow, simulation: FailoverRun
) -> None:
    run = FailoverRun.objects.create(
        flow=flow,
        kind="switchover",
        state="waiting",
        waits_for="person",
        reason="Start the consumers on the target: Start them, then confirm.",
        requested_by="ann",
        why="tonight",
        mark="n",
        simulation=simulation,
        plan=PLAN,
    )
    for number, step in enumerate(STEPS, start=1):
        state = "succeeded" if number < 7 else "waiting" if number == 7 else "pending"
        FailoverStep.objects.create(
            run=run, number=number, name=step.name, does=step.title, state=state, command="kafka x"
        )
    page = signed_in("operator").get(f"/failovers/{run.pk}/").content.decode()
    assert "an unknown number of records" not in page
    last_known = {**PLAN, "loss": 0, "loss_known": 0, "loss_certainty": "at_least"}
    FailoverRun.objects.filter(pk=run.pk).update(plan=last_known)
    unread = signed_in("operator").get(f"/failovers/{run.pk}/").content.decode()
    # The source stopped responding after the plan that saw 0.
    assert "<dt>Not on backup</dt><dd>an unknown number of records</dd>" in unread
    for words in ("Start them, then confirm.", "Confirm the step", "Abort and undo", "kafka x"):
        assert words in page
    seen = signed_in("viewer").get(f"/failovers/{run.pk}/").content.decode()
    assert "Confirm the step</button>" not in seen
    operator = signed_in("operator")
    # The page of somebody else still shows the step before, or the step before it failed.
    for other in ({"step": "reset_groups"}, {"step": "start_consumers", "state": "failed"}):
        refused = operator.post(f"/failovers/{run.pk}/confirm/", other, follow=True)
        words = "“Start the consumers on the target” is waiting now. Read its reason, then decide."
        assert words in refused.content.decode()
    run.refresh_from_db()
    assert (run.state, run.steps.get(number=7).confirmed_by) == ("waiting", "")
    for hidden in ('name="step" value="start_consumers"', 'name="state" value="waiting"'):
        assert hidden in page
    shown = {"step": "start_consumers", "state": "waiting"}
    assert operator.post(f"/failovers/{run.pk}/confirm/", shown).status_code == 302
    run.refresh_from_db()
    assert (run.state, run.steps.get(number=7).confirmed_by) == ("running", "the-operator")
    assert signed_in("viewer").post(f"/failovers/{run.pk}/pause/").status_code == 403
    assert operator.post(f"/failovers/{run.pk}/confirm/").status_code == 302


def test_an_abort_first_shows_what_it_undoes_and_keeps_the_reason(
    operator: Client, flow: Flow, simulation: FailoverRun
) -> None:
    given = {"simulation": simulation.pk, "kind": "failover", "reason": "tonight"}
    operator.post(f"/flows/{flow.pk}/failover/", {**given, "confirm_alias": "backup"})
    run = FailoverRun.objects.get(kind="failover")
    path = f"/failovers/{run.pk}/abort/"
    assert "Nothing was changed yet" in operator.get(path).content.decode()
    run.steps.filter(number__lte=4).update(acting_at=timezone.now(), state="succeeded")
    asks = operator.get(path).content.decode()
    drain = asks.index("Drain and stop the flow: Starts the flow again if it ran before.")
    assert drain < asks.index("Fence the producers: Removes exactly the ACLs that it created")
    assert "there is nothing to undo" not in asks
    run.refresh_from_db()
    assert run.abort_asked_by == "", "reading it aborts nothing"
    FailoverRun.objects.update(state="running")
    assert operator.post(path, {"reason": "It was a rehearsal."}).status_code == 302
    run.refresh_from_db()
    assert run.abort_asked_by == "the-operator"
    asked = Transition.objects.get(to_state="abort asked")
    assert (asked.who, asked.why) == ("the-operator", "It was a rehearsal.")


def test_a_turn_that_waits_sends_the_next_and_beat_sends_what_was_lost(
    operator: Client, flow: Flow, simulation: FailoverRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"simulation": simulation.pk, "kind": "failover", "reason": "tonight"}
    operator.post(f"/flows/{flow.pk}/failover/", {**given, "confirm_alias": "backup"})
    run = FailoverRun.objects.get(kind="failover")
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(tasks.run_failover, "apply_async", lambda **how: sent.append(how))
    tasks.run_failover(run.pk)  # nobody answers at the target: it is tried again
    (message,) = sent
    assert message["args"] == [run.pk]
    assert 0 < message["countdown"] < 5 < message["expires"]
    run.refresh_from_db()
    assert (run.state, run.holder, run.steps.get(number=1).attempt) == ("running", "", 1)
    tasks.run_failover(run.pk)  # one message too many
    assert len(sent) == 1
    tasks.sweep_failovers()
    assert len(sent) == 1
    FailoverRun.objects.filter(pk=run.pk).update(next_at=timezone.now() - timedelta(seconds=30))
    tasks.sweep_failovers()
    assert sent[1]["args"] == [run.pk]
