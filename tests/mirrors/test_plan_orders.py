"""The plan of a flow's target: a worker stores its result only while it has the order."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.topics.sync_plan import ConfigChange, SyncPlan
from mirrors.models import Flow, FlowPlan
from mirrors.services.topics import configs, plans
from tests.pages import world

pytestmark = pytest.mark.django_db

CHANGE = ConfigChange(topic="a", remote_topic="one.a", key="retention.ms", before="1", after="2")
PLAN = SyncPlan(configs=(CHANGE,))
NOW = timezone.now()


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow with a plan that a person has read."""
    flow = world.flow(world.cluster("one"), world.cluster("two"))
    monkeypatch.setattr(configs, "find_differences", lambda _: PLAN)
    plans.request_plan(flow=flow, now=NOW)
    plans.plan_on_request(flow_id=flow.pk, now=NOW)
    return flow


def plan_of(flow: Flow) -> FlowPlan:
    return FlowPlan.objects.get(flow=flow)


def apply(flow: Flow) -> None:
    plans.request_apply(flow=flow, digest=PLAN.digest, who="ann", now=NOW)


def test_a_failed_read_does_not_end_an_apply_that_began_meanwhile(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: Any) -> SyncPlan:
        apply(flow)
        raise KafkaRefused("The principal may not do that.")

    monkeypatch.setattr(configs, "find_differences", look)
    plans.request_plan(flow=flow, now=NOW)
    plans.plan_on_request(flow_id=flow.pk, now=NOW)
    assert plan_of(flow).state == "applying"


def test_a_second_worker_does_not_call_an_applied_plan_stale(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same message; the second reads the clusters after the first applied."""
    apply(flow)

    def look(_: Any) -> SyncPlan:
        monkeypatch.setattr(configs, "find_differences", lambda _: PLAN)
        plans.apply_now(flow_id=flow.pk, now=NOW)
        return SyncPlan()

    monkeypatch.setattr(configs, "apply", lambda *_: [])
    monkeypatch.setattr(configs, "find_differences", look)
    plans.apply_now(flow_id=flow.pk, now=NOW)
    applied = plan_of(flow)
    assert (applied.state, applied.changes) == ("applied", [])
    assert "requested by ann" in applied.reason


@pytest.mark.parametrize("end", ["failed", "stale"])
def test_a_plan_that_was_not_applied_can_be_applied_again(
    flow: Flow, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(flow)
    if end == "failed":
        monkeypatch.setattr(configs, "apply", lambda *_: ["Kafka rejected it."])
        plans.apply_now(flow_id=flow.pk, now=NOW)
    else:
        FlowPlan.objects.filter(flow=flow).update(digest="older")
        plans.apply_now(flow_id=flow.pk, now=NOW)
    assert plan_of(flow).state == end
    apply(flow)
    assert plan_of(flow).state == "applying"


def test_a_plan_without_a_change_keeps_who_applied_the_one_before(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(flow)
    monkeypatch.setattr(configs, "apply", lambda *_: [])
    plans.apply_now(flow_id=flow.pk, now=NOW)
    monkeypatch.setattr(configs, "find_differences", lambda _: SyncPlan())
    plans.plan_on_request(flow_id=flow.pk, now=NOW)
    assert plan_of(flow).state == "applied"
    assert "requested by ann" in plan_of(flow).reason
