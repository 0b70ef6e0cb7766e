"""The tabs Drift and Plan, the page of one finding, explain of groups: who sees and who decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.topics.acls import NOT_SEEN
from mirrors.domain.topics.drift import Deviation, decide_drift
from mirrors.models import Drift, Flow, FlowPlan, GroupOffset
from mirrors.services.clock import milliseconds
from mirrors.services.drift.findings import store_findings
from mirrors.services.migration import import_export
from mirrors.services.sync import scheduler
from tests.pages import world
from tests.pages.conftest import As

SET = Deviation(
    kind="topic config",
    name="primary.orders",
    key="segment.ms",
    expected="1000",
    found="<b>5</b>",
    wanted="1000",
)
MM2 = """clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
a->b.topics = orders.*
"""


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


@pytest.fixture
def finding(flow: Flow) -> Drift:
    now = timezone.now()
    ruling = decide_drift(SET, None, now=milliseconds(now), grace_s=3600)
    store_findings(flow.pk, {SET.drift_key: (SET, ruling)}, kinds=[SET.kind], put_back=(), now=now)
    return Drift.objects.get(found=SET.found)


def decide(client: Client, finding: Drift, **body: Any) -> Any:
    page = f"/flows/{finding.flow_id}/drift/{finding.pk}/"
    digest = client.get(page).context["digest"]
    return client.post(page, {"choice": "accept", "reason": "Known.", "digest": digest, **body})


def test_a_finding_is_listed_and_decided_on_by_an_operator_with_a_reason(
    finding: Drift, signed_in: As
) -> None:
    place = f"/flows/{finding.flow_id}/drift/"
    page = f"{place}{finding.pk}/"
    viewer, operator = signed_in("viewer"), signed_in("operator")
    listed = viewer.get(place).content.decode()
    assert page in listed
    assert "&lt;b&gt;5&lt;/b&gt;" in listed
    assert "It is reverted at" in viewer.get(page).content.decode()
    assert decide(viewer, finding).status_code == 403
    assert decide(operator, finding, reason=" ").status_code == 422
    assert decide(operator, finding, choice="ignore").status_code == 422
    assert decide(operator, finding, digest="other").status_code == 409
    assert decide(operator, finding, choice="ignore", days="7").status_code == 302
    finding.refresh_from_db()
    assert (finding.state, finding.decided_by) == ("ignored", "the-operator")
    assert finding.expires_at is not None
    assert timedelta(days=6) < finding.expires_at - timezone.now() < timedelta(days=8)
    told = operator.get(f"/flows/{finding.flow_id}/events/").content.decode()
    assert "drift: ignore" in told
    assert "Known." in told
    assert decide(operator, finding, choice="fix").status_code == 302
    finding.refresh_from_db()
    assert finding.state == "fixing"
    # What is over can be read, not decided on.
    store_findings(finding.flow_id, {}, kinds=[SET.kind], put_back=(), now=timezone.now())
    assert 'name="choice"' not in operator.get(page).content.decode()
    assert decide(operator, finding).status_code == 409


def test_rest_lists_shows_and_decides(finding: Drift, signed_in: As) -> None:
    place = f"/api/v1/flows/{finding.flow_id}/drift/"
    viewer, operator = signed_in("viewer"), signed_in("operator")
    [row] = viewer.get(place, {"state": "open"}).json()["results"]
    assert (row["expected"], row["found"], row["wanted"]) == ("1000", "<b>5</b>", "1000")
    assert viewer.get(f"{place}{row['id']}/").json() == row
    body = {"choice": "accept", "reason": "Known.", "digest": row["digest"]}

    def post(client: Client, path: str, body: dict[str, Any]) -> Any:
        return client.post(path, body, content_type="application/json")

    decide_at = f"{place}{row['id']}/decide/"
    assert post(viewer, decide_at, body).status_code == 403
    assert post(viewer, place, {}).status_code == 403
    assert post(operator, decide_at, {**body, "reason": ""}).status_code == 400
    assert post(operator, decide_at, {**body, "choice": "ignore"}).status_code == 400
    assert post(operator, decide_at, {**body, "digest": "x"}).json()["error"]["code"] == "stale"
    answer = post(operator, decide_at, body)
    assert (answer.status_code, answer.json()["state"]) == (200, "accepted")
    until = (timezone.now() + timedelta(days=2)).isoformat()
    answer = post(operator, decide_at, {**body, "choice": "ignore", "expires_at": until})
    assert answer.json()["state"] == "ignored"
    assert post(operator, place, {}).status_code == 202


def test_access_rules_wait_for_a_look_and_the_plan_s_tab_lets_them_follow(
    flow: Flow, signed_in: As
) -> None:
    flow.properties["sync.topic.acls.enabled"] = "true"
    flow.save()
    now = timezone.now()
    viewer, operator = signed_in("viewer"), signed_in("operator")
    place = f"/flows/{flow.pk}/plan/"
    assert "Nobody has reviewed the ACLs" in viewer.get(place).content.decode()
    assert viewer.get(f"/api/v1{place}").json()["acls_wait"] == NOT_SEEN
    # The sentence of an earlier version, which stored no codes.
    plan = FlowPlan.objects.create(
        flow=flow,
        state="ready",
        digest="d" * 64,
        since=now,
        as_of=now,
        left_out=["Access rules are not part of this plan. Cluster a: no answer."],
    )
    assert viewer.post(f"{place}follow/", {"digest": plan.digest}).status_code == 403
    operator.post(f"{place}follow/", {"digest": plan.digest})
    assert "There are no ACLs in this plan" in operator.get(place).content.decode()
    plan.left_out = []
    plan.save()
    assert "Synchronize ACLs" in operator.get(place).content.decode()
    body = {"digest": plan.digest}
    answer = operator.post(f"/api/v1{place}follow/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["acls_wait"]) == (200, "")
    assert "Nobody has reviewed the ACLs" not in operator.get(place).content.decode()


def test_an_imported_wish_for_access_rules_is_kept_and_waits(db: None) -> None:
    plan = import_export.preview_import(kind="mm2-properties", text=MM2)
    made = import_export.apply_import(kind="mm2-properties", text=MM2, digest=plan.digest, who="me")
    (flow,) = made.flows
    assert flow.properties["sync.topic.acls.enabled"] == "true"
    rows = scheduler.task_statuses(flow=flow, now=timezone.now())
    (acls,) = (row for row in rows if row.schedule.name == "topic acls")
    assert (acls.enabled, acls.judgement.due, acls.judgement.reason) == (True, False, NOT_SEEN)


def test_a_group_is_explained_by_page_and_rest(flow: Flow, signed_in: As) -> None:
    GroupOffset.objects.create(
        flow=flow,
        group="app",
        topic="orders",
        partition=0,
        source_offset=5,
        translated_offset=5,
        sync_state="off",
        as_of=timezone.now(),
    )
    viewer = signed_in("viewer")
    page = viewer.get(f"/flows/{flow.pk}/explain/", {"group": "app"}).content.decode()
    assert "is not synchronized" in page
    assert "Set sync.group.offsets.enabled=true" in page
    assert (
        f"/flows/{flow.pk}/explain/?group=app"
        in viewer.get(f"/flows/{flow.pk}/groups/").content.decode()
    )
    place = f"/api/v1/flows/{flow.pk}/explain/"
    told = viewer.get(place, {"group": "console-consumer-1"}).json()
    assert (told["group"], told["replicated"]) == ("console-consumer-1", False)
    assert [rule["rule"] for rule in told["rules"] if rule["passed"] is False] == ["groups.exclude"]
    assert told["fix"]
    missing = viewer.get(place, {"group": "other"}).json()
    assert "is not among the groups seen at" in missing["reason"]
    for wrong in ({}, {"topic": "a", "group": "b"}, {"group": "a\0b"}):
        assert viewer.get(place, wrong).status_code == 400
    # A topic that the flow has not seen says so too.
    flow.properties = {}
    flow.save()
    told = viewer.get(place, {"topic": "nowhere"}).json()
    assert "is not among the topics that the flow saw on primary" in told["reason"]
