"""The tabs of sync tasks, heartbeats and the plan of a flow."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Cluster, DutyRun, Flow, FlowPlan, HeartbeatState, Transition
from tests.pages import world
from tests.pages.conftest import As

CHANGE = {
    "kind": "topic config",
    "name": "primary.orders: retention.ms",
    "before": None,
    "after": "<b>1000</b>",
    "reason": "orders has this value on the source.",
}


@pytest.fixture
def flow(pair: tuple[Cluster, Cluster]) -> Flow:
    return world.flow(*pair)


@pytest.fixture
def plan(flow: Flow) -> FlowPlan:
    now = timezone.now()
    facts = {"state": "ready", "digest": "d" * 64, "changes": [CHANGE], "since": now, "as_of": now}
    return FlowPlan.objects.create(flow=flow, left_out=["x is not carried: it is odd."], **facts)


def text(client: Client, flow: Flow, part: str) -> str:
    answer = client.get(f"/flows/{flow.pk}/{part}/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_duty_shows_its_last_run_and_why_something_was_left(viewer: Client, flow: Flow) -> None:
    now = timezone.now()
    DutyRun.objects.create(
        flow=flow, duty="topic configs", slot=int(now.timestamp()), since=now, started_at=now,
        ended_at=now, counts={"changed": 1234}, reasons=["y of t is not carried."], runs=3,
    )  # fmt: skip
    shown = text(viewer, flow, "duties")
    assert "1,234 changed" in shown
    assert "3 runs since" in shown
    assert "y of t is not carried." in shown
    assert "sync.topic.acls.enabled is false." in shown


def test_a_heartbeat_shows_its_age_and_where_it_is_written(viewer: Client, flow: Flow) -> None:
    assert "Newest heartbeat" not in text(viewer, flow, "duties")
    HeartbeatState.objects.create(
        flow=flow,
        seen_at=timezone.now() - timedelta(seconds=70),
        latency_ms=412,
        clock_skew_ms=0,
        place="target",
        reason="So they are written on backup, as MirrorMaker 2 does.",
    )
    shown = text(viewer, flow, "duties")
    assert "1 min 10 s" in shown
    assert "0.4 s" in shown
    assert "So they are written on backup" in shown


def test_a_plan_shows_each_change_and_an_operator_applies_exactly_it(
    signed_in: As, flow: Flow, plan: FlowPlan
) -> None:
    operator = signed_in("operator")
    shown = text(operator, flow, "plan")
    assert "primary.orders: retention.ms" in shown
    assert "&lt;b&gt;1000" in shown
    assert "Apply 1 change to backup" in shown
    assert f'value="{plan.digest}"' in shown
    operator.post(f"/flows/{flow.pk}/plan/apply/", {"digest": "e" * 64})
    plan.refresh_from_db()
    assert plan.state == "ready"
    operator.post(f"/flows/{flow.pk}/plan/apply/", {"digest": plan.digest})
    plan.refresh_from_db()
    assert (plan.state, plan.asked_by) == ("applying", "the-operator")
    assert Transition.objects.filter(to_state="plan applied", who="the-operator").count() == 1


@pytest.mark.usefixtures("plan")
def test_a_viewer_reads_a_plan_and_cannot_apply_it(viewer: Client, flow: Flow) -> None:
    assert "Apply 1 change" not in text(viewer, flow, "plan")
    for act in ("look", "apply"):
        answer = viewer.post(f"/flows/{flow.pk}/plan/{act}/", {"digest": "d" * 64})
        assert answer.status_code == 403


def test_a_flow_without_a_plan_says_what_one_is(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    assert "No plan yet" in text(operator, flow, "plan")
    operator.post(f"/flows/{flow.pk}/plan/look/")
    assert "A worker reads both clusters." in text(operator, flow, "plan")


def test_a_plan_of_very_many_changes_shows_the_first_and_says_so(
    viewer: Client, flow: Flow, plan: FlowPlan
) -> None:
    FlowPlan.objects.filter(pk=plan.pk).update(changes=[CHANGE] * 1234)
    shown = text(viewer, flow, "plan")
    assert "The first 500 of 1,234 changes" in shown
    assert shown.count("primary.orders: retention.ms") == 500


def test_a_plan_that_the_flow_has_overtaken_is_refreshed_instead_of_applied(
    signed_in: As,
) -> None:
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    made = {"kind": "create topic", "name": "primary.orders", "before": None, "after": "3"}
    changes = [{**made, "reason": "It is missing."}]
    now = timezone.now()
    FlowPlan.objects.create(
        flow=flow, changes=changes, state="ready", as_of=now, since=now, digest="d"
    )
    operator = signed_in("operator")
    assert "Apply 1 change to backup" in operator.get(f"/flows/{flow.pk}/plan/").content.decode()
    world.topic(flow, "orders")
    text = operator.get(f"/flows/{flow.pk}/plan/").content.decode()
    assert "1 of these topics is there by now: the flow made it since." in text
    assert "Apply 1 change" not in text
