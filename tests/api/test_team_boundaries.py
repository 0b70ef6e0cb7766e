"""What people with rights on one flow try against other teams, through renames, routes, previews,
conflict reports and hosts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import (
    Cluster,
    ConflictKey,
    ConflictReport,
    Flow,
    FlowLabel,
    Host,
    Role,
    RulePreview,
)
from mirrors.services.users import ensure_person
from tests.api.conftest import client_of
from tests.pages import world

FLOWS = "/api/v1/flows/"


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(desired_state="stopped", properties={"topics": "payments"})
    FlowLabel.objects.create(flow=flow, name="payments")
    return flow


@pytest.fixture
def team(admin: APIClient, flow: Flow) -> APIClient:
    """Ann operates and edits the flows with the label payments."""
    ensure_person(username="ann", password=None, role=Role.NONE)
    for role in ("operator", "editor"):
        body = {"username": "ann", "role": role, "scope": "label", "label": "payments"}
        assert admin.post("/api/v1/grants/", body).status_code == 201
    return client_of("ann")


def other_team(flow: Flow, **properties: str) -> Flow:
    third = world.cluster("third", bootstrap_servers="127.0.0.1:19093")
    return world.flow(third, flow.target, properties={"topics": "salaries", **properties})


def edit(client: APIClient, flow: Flow, properties: dict[str, str]) -> Any:
    return client.patch(f"{FLOWS}{flow.pk}/", {"properties": properties}, format="json")


@pytest.mark.parametrize(
    "name",
    [
        "__consumer_offsets",
        "__transaction_state",
        "mm2-positions.primary.internal",
        "mm2-flow.primary.internal",
        "mm2-offset-syncs.backup.internal",
        "primary.checkpoints.internal",
        "primary.heartbeats",
        "..",
        "third.salaries",
    ],
)
def test_no_rename_writes_an_internal_topic_or_that_of_another_flow(
    team: APIClient, flow: Flow, name: str
) -> None:
    other_team(flow)
    route = {"topics": "payments", "topic": f"'{name}'", "routes": [name]}
    letters = {"topics": "payments", "where": "value is not null", "on_error": "dead_letter"}
    for key, given in (
        ("topic.rename", {"topic.rename": f"payments -> {name}"}),
        ("transforms", {"transforms": json.dumps([route])}),
        (
            "dead.letter.topic",
            {"transforms": json.dumps([letters]), "dead.letter.topic": name},
        ),
    ):
        answer = edit(team, flow, {"topics": "payments", **given})
        assert answer.status_code == 400, (given, answer.json())
        assert list(answer.json()["error"]["fields"]) == [key]
    assert "third.salaries" not in json.dumps(Flow.objects.get(pk=flow.pk).properties)


@pytest.mark.parametrize(
    "rule", ["(pay)ments -> __$1", "p(.*) -> third.salaries", "(.*)ments -> mm2-$1"]
)
def test_nor_by_a_pattern_that_only_the_topic_completes(
    team: APIClient, flow: Flow, rule: str
) -> None:
    """A name that no topic may have is refused when saved, or the topic is not replicated."""
    other_team(flow)
    answer = edit(team, flow, {"topics": "payments", "topic.rename": rule})
    if answer.status_code == 200:
        found = team.get(f"{FLOWS}{flow.pk}/explain/?topic=payments").json()
        assert not found["replicated"], found
        assert "reserved" in json.dumps(found)
    else:
        assert answer.status_code == 400


def test_a_preview_reads_only_topics_of_the_flow(team: APIClient, flow: Flow) -> None:
    hidden = other_team(flow)
    rules = json.dumps([{"topics": ".*", "value": "key"}])
    ask = {"topic": "salaries", "transforms": rules}
    assert team.post(f"{FLOWS}{flow.pk}/rules/preview/", ask).status_code == 400
    assert team.post(f"{FLOWS}{hidden.pk}/rules/preview/", ask).status_code == 404
    row = RulePreview.objects.create(
        flow=hidden,
        topic="salaries",
        count=1,
        is_edited=False,
        requested_by="x",
        requested_at=timezone.now(),
    )
    for at in (hidden.pk, flow.pk):
        assert team.get(f"{FLOWS}{at}/rules/preview/{row.pk}/").status_code == 404


def test_keys_of_a_scheduled_report_need_the_right_on_both_flows(
    admin: APIClient, team: APIClient, flow: Flow
) -> None:
    """It reads the flow of the other direction, and nobody is asked for that right."""
    back = world.flow(flow.target, flow.source)
    report = ConflictReport.objects.create(
        flow=flow, window_seconds=60, period_seconds=60, requested_by="schedule",
        requested_at=timezone.now() - timedelta(minutes=1), ended_at=timezone.now(),
    )  # fmt: skip
    sides = ("source_partition", "source_offset", "source_last_offset")
    facts = dict.fromkeys([*sides, *(name.replace("source", "target") for name in sides)], 1)
    ConflictKey.objects.create(
        report=report, topic="orders", text="customer-7", digest="c0ffee", conflicts=1,
        agrees=False, **facts,
    )  # fmt: skip
    page = f"/flows/{flow.pk}/conflicts/"
    browser = Client()
    browser.force_login(User.objects.get(username="ann"))
    for address in (page, f"{page}?as=csv", f"{page}?as=jsonl"):
        text = b"".join(browser.get(address)).decode()
        assert "c0ffee" in text
        assert "customer-7" not in text
    assert team.post("/api/v1/conflicts/", {"flow": flow.pk}).status_code == 403
    assert browser.post(page, {"window_seconds": 1, "period_seconds": 9}).status_code == 403
    FlowLabel.objects.create(flow=back, name="payments")
    assert "customer-7" in browser.get(page).content.decode()


def test_hosts_are_drained_by_admins_of_everything(
    admin: APIClient, operator: APIClient, team: APIClient, flow: Flow
) -> None:
    """Draining one moves the runners of all teams."""
    now = timezone.now()
    Host.objects.create(name="a", renewed_at=now, held_since=now)
    for cluster in Cluster.objects.all():
        body = {"username": "ann", "role": "admin", "scope": "cluster", "cluster": cluster.alias}
        assert admin.post("/api/v1/grants/", body).status_code == 201
    browser = Client()
    browser.force_login(User.objects.get(username="ann"))
    for action in ("drain", "end-drain"):
        for client in (client_of("ann"), operator):
            assert client.post(f"/api/v1/hosts/a/{action}/").status_code == 403
        assert browser.post(f"/hosts/a/{action}/").status_code == 403
    assert client_of("ann").get("/api/v1/hosts/").status_code == 403
    assert Host.objects.get().draining_since is None
    # Nothing could take over its runners.
    assert admin.post("/api/v1/hosts/a/drain/").status_code == 409
