"""Switchovers and failovers over REST: requirements, roles, and the texts of their steps."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import FailoverRun, FailoverStep, Flow
from mirrors.services.failover.runbook.worker import advance

PATH = "/api/v1/failovers/"
PLAN = {
    "loss": 12,
    "re_reads": 0,
    "certainty": "observed",
    "blockers": [],
    "warnings": [],
    "clients": [],
    "partitions": [
        {
            "topic": "orders",
            "partition": 0,
            "remote_topic": "primary.orders",
            "position": 80,
            "source_end": 92,
            "source_end_age_ms": None,
            "target_end": 90,
            "loss": 12,
            "certainty": "observed",
            "reason": "",
        }
    ],
    "places": [
        {
            "group": "billing",
            "topic": "orders",
            "partition": 0,
            "remote_topic": "primary.orders",
            "source_offset": 80,
            "downstream_offset": 70,
            "reason": "",
        }
    ],
}


@pytest.fixture
def simulation(flow: dict[str, Any]) -> FailoverRun:
    now = timezone.now()
    return FailoverRun.objects.create(
        flow_id=flow["id"],
        kind="simulation",
        state="succeeded",
        requested_by="operator",
        mark="m",
        plan=PLAN,
        result={"partitions": []},
        ended_at=now,
        swept_at=now,
    )


def ask(client: APIClient, simulation: FailoverRun, **changes: Any) -> Any:
    body = {"flow": "primary->backup", "kind": "failover", "simulation": simulation.pk}
    return client.post(PATH, {**body, "confirm_alias": "backup", "reason": "tonight", **changes})


def test_a_run_is_begun_with_nine_steps_and_for_each_the_command_of_a_human(
    operator: APIClient, viewer: APIClient, simulation: FailoverRun
) -> None:
    assert ask(viewer, simulation).status_code == 403
    made = ask(operator, simulation).json()
    assert (made["state"], made["simulation"]) == ("queued", simulation.pk)
    steps = viewer.get(f"{PATH}{made['id']}/").json()["steps"]
    assert [step["name"] for step in steps] == [
        "detect",
        "verify_target",
        "fence_producers",
        "drain",
        "read_checkpoints",
        "reset_groups",
        "start_consumers",
        "redirect_producers",
        "verify_flow",
    ]
    assert "--deny-principal" in steps[2]["command"]
    assert "primary.orders,0,70" in steps[5]["command"]
    assert all(step["runbook"]["limit"].endswith(" s") for step in steps)


def test_two_people_where_the_flow_says_so(
    operator: APIClient, admin: APIClient, simulation: FailoverRun
) -> None:
    Flow.objects.update(properties={"failover.second.person": "true"})
    made = ask(operator, simulation).json()
    assert (made["state"], made["waits_for"]) == ("waiting", "approval")
    path = f"{PATH}{made['id']}/"
    User.objects.get(username="operator").groups.add(Group.objects.get(name="approver"))
    own = operator.post(f"{path}approve/")
    assert own.status_code == 409
    assert "another person" in own.json()["error"]["message"]
    answer = admin.post(f"{path}approve/", {"reason": "agreed"}).json()
    assert (answer["state"], answer["approved_by"]) == ("running", "admin")


def test_only_operators_steer_and_each_verb_says_when_it_does_not_fit(
    operator: APIClient, viewer: APIClient, simulation: FailoverRun
) -> None:
    path = f"{PATH}{ask(operator, simulation).json()['id']}/"
    for verb in ("approve", "confirm", "pause", "resume", "abort"):
        assert viewer.post(f"{path}{verb}/").status_code == 403
    assert operator.post(f"{path}approve/").status_code == 403
    for verb in ("confirm", "resume"):
        assert operator.post(f"{path}{verb}/").status_code == 409, verb
    assert operator.post(f"{path}pause/").json()["pause_asked_by"] == "operator"
    assert operator.post(f"{path}resume/").status_code == 409  # a worker has to hold it first
    aborted = operator.post(f"{path}abort/", {"reason": "not tonight"}).json()
    assert (aborted["state"], aborted["reason"]) == ("aborted", "not tonight")
    assert operator.post(f"{path}pause/").status_code == 409


def test_a_confirmation_of_another_step_than_the_one_that_waits_is_refused(
    operator: APIClient, simulation: FailoverRun
) -> None:
    path = f"{PATH}{ask(operator, simulation).json()['id']}/"
    FailoverStep.objects.filter(name="start_consumers").update(state="waiting")
    FailoverRun.objects.exclude(pk=simulation.pk).update(state="waiting", waits_for="person")
    refused = operator.post(f"{path}confirm/", {"step": "redirect_producers"})
    assert refused.status_code == 409
    assert "“Start the consumers on the target” is waiting" in refused.json()["error"]["message"]
    assert operator.post(f"{path}confirm/", {"step": "consumers"}).status_code == 400
    body = {"step": "start_consumers", "reason": "done"}
    assert operator.post(f"{path}confirm/", body).json()["state"] == "running"


def test_a_target_that_does_not_answer_ends_the_run_and_nothing_was_changed(
    operator: APIClient, simulation: FailoverRun
) -> None:
    made = ask(operator, simulation).json()
    FailoverStep.objects.update(attempt=5)  # its tries are over
    advance(run_id=made["id"])
    found = operator.get(f"{PATH}{made['id']}/").json()
    assert found["state"] == "failed"
    assert "Nothing was changed" in found["reason"]
    assert [step["state"] for step in found["steps"]] == ["failed"] + ["skipped"] * 8


def test_hooks_that_could_not_work_are_refused_before_anything_begins(
    operator: APIClient, simulation: FailoverRun, flow: dict[str, Any]
) -> None:
    path = f"/api/v1/flows/{flow['id']}/"
    for properties, key in (
        ({"failover.fence": "webhook"}, "failover.fence"),
        ({"failover.webhook.headers": "Authorization=hunter2"}, "failover.webhook.headers"),
        ({"failover.webhook.secret": "hunter2"}, "failover.webhook.secret"),
        ({"failover.fence": "prayer"}, "failover.fence"),
    ):
        refused = operator.patch(path, {"properties": properties})
        assert refused.status_code == 400, refused.json()
        assert key in str(refused.json()["error"]["fields"])
    Flow.objects.update(
        properties={"failover.start.consumers": "command", "failover.command": "rm"}
    )
    refused = ask(operator, simulation)
    assert refused.status_code == 400
    assert "UNDERSTUDY_FAILOVER_COMMANDS" in refused.json()["error"]["message"]


def test_a_scope_is_simulated_kept_and_may_not_differ(
    operator: APIClient, simulation: FailoverRun
) -> None:
    scope = {"topics": ["orders"], "groups": ["billing"]}
    body = {"flow": "primary->backup", "kind": "simulation", "scope": scope}
    made = operator.post(PATH, body).json()
    assert made["scope"] == scope
    FailoverRun.objects.filter(pk=made["id"]).update(
        state="succeeded", ended_at=timezone.now(), plan=PLAN, result={"partitions": []}
    )
    scoped = FailoverRun.objects.get(pk=made["id"])
    other = ask(operator, scoped, scope={"topics": ["payments"]})
    assert other.status_code == 400
    assert "was not simulated" in str(other.json())
    assert ask(operator, scoped).json()["scope"] == scope
    bad = operator.post(PATH, {**body, "scope": {"topics": ["("]}})
    assert bad.status_code == 400
    assert operator.post(PATH, {**body, "scope": {"topics": []}}).status_code == 400
    assert operator.post(PATH, {**body, "groups": ["x"]}).status_code == 400
