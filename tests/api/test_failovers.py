"""Failovers over REST: roles, refusals with a reason, and how a run is followed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import FailoverRun
from mirrors.services.failover import lifecycle
from mirrors.services.failover.simulation import simulator

PATH = "/api/v1/failovers/"


def ask(client: APIClient, flow: dict[str, Any], **more: Any) -> Any:
    body = {"flow": flow["id"], "kind": "simulation", **more}
    return client.post(PATH, body)


def test_a_simulation_is_asked_for_followed_and_found_in_the_list(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    answer = ask(operator, flow, groups=["billing"], reason="before the weekend")
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["state"], made["flow"], made["groups"]) == ("queued", flow["id"], ["billing"])
    assert [step["state"] for step in made["steps"]] == ["pending"] * 4
    read = viewer.get(f"{PATH}{made['id']}/").json()
    assert read["requested_by"] == "operator"
    assert read["asked_reason"] == "before the weekend"
    (listed,) = viewer.get(f"{PATH}?state=queued").json()["results"]
    assert listed["flow_name"] == "primary->backup"
    assert "plan" not in listed


def test_a_flow_may_be_named(operator: APIClient, flow: dict[str, Any]) -> None:
    assert ask(operator, {"id": "primary->backup"}).status_code == 201
    for strange in ("primary->nowhere", 10**17, "x" * 300, True, [1]):
        refused = ask(operator, {"id": strange})
        assert refused.status_code == 400
        assert "flow" in refused.json()["error"]["fields"]


def test_only_operators_ask_and_only_one_runs_at_a_time(
    viewer: APIClient, operator: APIClient, flow: dict[str, Any]
) -> None:
    assert ask(viewer, flow).status_code == 403
    assert ask(operator, flow).status_code == 201
    again = ask(operator, flow)
    assert again.status_code == 409
    assert "is already running" in again.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["switchover", "failover", "failback"])
def test_a_run_without_a_fresh_simulation_is_refused_with_a_reason(
    operator: APIClient, flow: dict[str, Any], kind: str
) -> None:
    refused = ask(operator, flow, kind=kind, simulation=1, confirm_alias="primary")
    assert refused.status_code == 400
    fields = refused.json()["error"]["fields"]
    wanted = {"kind"} if kind == "failback" else {"simulation", "confirm_alias", "reason"}
    assert set(fields) == wanted
    assert not FailoverRun.objects.exists()


def test_a_run_that_waits_is_aborted_at_once_and_one_that_runs_when_it_looks(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    made = ask(operator, flow).json()
    aborted = operator.post(f"{PATH}{made['id']}/abort/", {"reason": "not now"})
    assert (aborted.status_code, aborted.json()["state"]) == (200, "aborted")
    assert aborted.json()["reason"] == "not now"
    assert operator.post(f"{PATH}{made['id']}/abort/").status_code == 409

    made = ask(operator, flow).json()
    run = lifecycle.take_run(run_id=made["id"])
    assert run is not None
    assert lifecycle.take_run(run_id=made["id"]) is None
    assert lifecycle.note_progress(run=run, progress={"step": "look"}) == ""
    assert operator.post(f"{PATH}{made['id']}/abort/").json()["state"] == "running"
    assert "operator" in lifecycle.note_progress(run=run, progress={})


def test_a_run_whose_worker_is_lost_fails_with_a_reason(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    made = ask(operator, flow).json()
    lifecycle.take_run(run_id=made["id"])
    lifecycle.end_lost_runs()
    assert operator.get(f"{PATH}{made['id']}/").json()["state"] == "running"
    old = timezone.now() - 2 * lifecycle.LOST_AFTER
    FailoverRun.objects.update(seen_at=old)
    assert lifecycle.end_lost_runs() == 1
    found = operator.get(f"{PATH}{made['id']}/").json()
    assert found["state"] == "failed"
    assert "worker" in found["reason"]
    assert {step["state"] for step in found["steps"]} == {"skipped"}
    # Its groups may still be there: that stays known until somebody has looked.
    assert FailoverRun.objects.get().swept_at is None


def test_a_run_that_no_worker_took_is_sent_again(operator: APIClient, flow: dict[str, Any]) -> None:
    made = ask(operator, flow).json()
    assert lifecycle.waiting_runs() == []
    FailoverRun.objects.update(created_at=timezone.now() - timedelta(seconds=20))
    assert lifecycle.waiting_runs() == [made["id"]]


def test_a_target_that_does_not_answer_ends_the_run_with_the_reason(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    made = ask(operator, flow).json()
    assert simulator.run_simulation(run_id=made["id"])
    assert not simulator.run_simulation(run_id=made["id"])
    found = operator.get(f"{PATH}{made['id']}/").json()
    assert found["state"] == "failed"
    assert "backup" in found["reason"]
    states = {step["name"]: step["state"] for step in found["steps"]}
    assert states == {
        "look": "failed",
        "read": "skipped",
        "compare": "skipped",
        "clean": "succeeded",
    }
