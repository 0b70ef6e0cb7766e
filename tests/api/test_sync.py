"""Sync tasks and plans over REST, and applying exactly that plan."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import DutyRun, FlowPlan, HeartbeatState

CHANGE = {
    "kind": "topic config",
    "name": "primary.orders: retention.ms",
    "before": "604800000 (default)",
    "after": "1000",
    "reason": "orders has this value on the source.",
}


@pytest.fixture
def path(flow: dict[str, Any]) -> str:
    return f"/api/v1/flows/{flow['id']}"


@pytest.fixture
def plan(flow: dict[str, Any]) -> FlowPlan:
    now = timezone.now()
    return FlowPlan.objects.create(
        flow_id=flow["id"], state="ready", digest="d" * 64, changes=[CHANGE], since=now, as_of=now
    )


def test_each_duty_says_its_last_run_when_it_is_next_and_why_not(
    viewer: APIClient, flow: dict[str, Any], path: str
) -> None:
    now = timezone.now()
    DutyRun.objects.create(
        flow_id=flow["id"], duty="topic configs", slot=1, since=now, started_at=now, ended_at=now,
        counts={"changed": 2}, reasons=["x of t is not carried."],
    )  # fmt: skip
    rows = {row["duty"]: row for row in viewer.get(f"{path}/duties/").json()}
    configs = rows["topic configs"]
    assert (configs["state"], configs["last"]["counts"]) == ("succeeded", {"changed": 2})
    assert configs["next_at"] is None
    assert configs["reason"] == "The flow is stopped or paused, and so are its sync tasks."
    assert (rows["topic acls"]["state"], rows["topic acls"]["enabled"]) == ("off", False)


def test_a_plan_nobody_has_looked_for_says_what_to_do(viewer: APIClient, path: str) -> None:
    answer = viewer.get(f"{path}/plan/").json()
    assert (answer["state"], answer["changes"], answer["as_of"]) == ("unknown", [], None)
    assert "POST here" in answer["reason"]


def test_an_operator_has_a_worker_look_and_a_viewer_has_not(
    viewer: APIClient, operator: APIClient, path: str
) -> None:
    assert viewer.post(f"{path}/plan/").status_code == 403
    assert operator.post(f"{path}/plan/").json()["state"] == "asked"


@pytest.mark.usefixtures("plan")
def test_a_plan_is_read_and_exactly_it_is_taken_once(operator: APIClient, path: str) -> None:
    seen = operator.get(f"{path}/plan/").json()
    assert seen["changes"] == [CHANGE]
    answer = operator.post(f"{path}/plan/apply/", {"digest": seen["digest"]})
    assert (answer.status_code, answer.json()["state"]) == (202, "applying")
    again = operator.post(f"{path}/plan/apply/", {"digest": seen["digest"]})
    assert again.status_code == 409
    assert "is being applied" in again.json()["error"]["message"]


@pytest.mark.usefixtures("plan")
def test_another_digest_is_stale(operator: APIClient, path: str) -> None:
    answer = operator.post(f"{path}/plan/apply/", {"digest": "e" * 64})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "stale")


def test_an_empty_plan_is_not_applied(operator: APIClient, path: str, plan: FlowPlan) -> None:
    FlowPlan.objects.filter(pk=plan.pk).update(changes=[])
    answer = operator.post(f"{path}/plan/apply/", {"digest": plan.digest})
    assert answer.status_code == 409
    assert "has no changes" in answer.json()["error"]["message"]


def test_a_plan_whose_worker_was_lost_can_be_applied_again(
    operator: APIClient, path: str, plan: FlowPlan
) -> None:
    long_ago = timezone.now() - timedelta(minutes=5)
    FlowPlan.objects.filter(pk=plan.pk).update(state="applying", since=long_ago)
    answer = operator.post(f"{path}/plan/apply/", {"digest": plan.digest})
    assert answer.status_code == 202


@pytest.mark.usefixtures("plan")
def test_a_viewer_reads_a_plan_but_does_not_apply_it(viewer: APIClient, path: str) -> None:
    assert viewer.get(f"{path}/plan/").status_code == 200
    assert viewer.post(f"{path}/plan/apply/", {"digest": "d" * 64}).status_code == 403


def test_a_heartbeat_that_was_not_seen_is_unknown_and_one_that_was_is_shown(
    viewer: APIClient, flow: dict[str, Any], path: str
) -> None:
    before = viewer.get(f"{path}/heartbeat/").json()
    assert (before["place"], before["seen_at"], before["latency_ms"]) == ("source", None, None)
    now = timezone.now()
    HeartbeatState.objects.create(flow_id=flow["id"], seen_at=now, latency_ms=412, as_of=now)
    assert viewer.get(f"{path}/heartbeat/").json()["latency_ms"] == 412
