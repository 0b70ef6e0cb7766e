"""Clusters bound what an editor of one flow may select and write: pages, REST, files, commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.topic_bounds import beyond_labels
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.models import Flow, Role
from mirrors.services.flows.settings import update_flow
from mirrors.services.users import ensure_person
from tests.api.conftest import client_of

RULES = "payments -> payments\\..*, payments -> refunds, orders -> orders"


@pytest.fixture
def ann(db: None) -> User:
    return ensure_person(username="ann", password=None, role=Role.NONE)


@pytest.fixture
def team(admin: APIClient, flow: dict[str, Any], ann: User) -> APIClient:
    """Ann edits what has the label payments; the flow has it and copies one topic."""
    path = f"/api/v1/flows/{flow['id']}/"
    body = {"labels": ["payments"], "properties": {"topics": "payments.eu"}}
    assert admin.patch(path, body, format="json").status_code == 200
    for role in ("editor", "operator"):
        body = {"username": "ann", "role": role, "scope": "label", "label": "payments"}
        assert admin.post("/api/v1/grants/", body).status_code == 201
    return client_of("ann")


def bound(admin: APIClient, alias: str, rules: str) -> None:
    body = {"properties": {"label.topics": rules}}
    answer = admin.patch(f"/api/v1/clusters/{alias}/", body, format="json")
    assert answer.status_code == 200, answer.json()


def edit(client: APIClient, flow: dict[str, Any], **properties: str) -> Any:
    properties = {key.replace("_", "."): value for key, value in properties.items()}
    path = f"/api/v1/flows/{flow['id']}/"
    preview = client.post(f"{path}preview/", {"properties": properties}, format="json")
    answer = client.patch(path, {"properties": properties}, format="json")
    assert preview.status_code == answer.status_code
    return answer


def test_without_the_setting_an_editor_selects_what_they_want(
    team: APIClient, flow: dict[str, Any]
) -> None:
    assert edit(team, flow, topics="payments.eu,salaries").status_code == 200


@pytest.mark.parametrize(
    ("topics", "allowed"),
    [
        ("payments\\.eu,payments\\..*", True),
        ("refunds", True),
        ("payments.eu,salaries", False),
        (".*", False),
        ("payments.*", False),
        ("orders", False),
        ("(?i)REFUNDS", False),
    ],
)
def test_an_editor_of_a_label_selects_what_the_source_allows(
    admin: APIClient, team: APIClient, flow: dict[str, Any], topics: str, allowed: bool
) -> None:
    bound(admin, "primary", RULES)
    answer = edit(team, flow, topics=topics)
    assert answer.status_code == (200 if allowed else 400), answer.json()
    if not allowed:
        (sentence,) = answer.json()["error"]["fields"]["topics"]
        assert sentence.startswith("It would select ")
        assert "label.topics of that cluster does not allow" in sentence
        assert "the labels payments" in sentence


def test_an_exclusion_that_is_removed_selects_too(
    admin: APIClient, team: APIClient, flow: dict[str, Any]
) -> None:
    given = {"topics": "payments.*", "topics.exclude": "payments-of-hr"}
    Flow.objects.filter(pk=flow["id"]).update(properties=given)
    bound(admin, "primary", RULES)
    assert edit(team, flow, **{**given, "tasks.max": "2"}).status_code == 200
    assert edit(team, flow, topics="payments.*").status_code == 400
    assert edit(team, flow, **{**given, "topics": "payments-x"}).status_code == 200


def test_an_editor_writes_what_the_target_allows(
    admin: APIClient, team: APIClient, flow: dict[str, Any]
) -> None:
    bound(admin, "backup", "payments -> primary\\.payments\\..*, payments -> payments-eu")
    allowed = {"topics": "payments.eu,payments\\.us"}
    assert edit(team, flow, **allowed).status_code == 200
    to_others = {"topics": "payments.eu", "topic.rename": "payments.eu -> orders"}
    assert edit(team, flow, **to_others).status_code == 400
    for name, status in (("payments-eu", 200), ("orders", 400)):
        rule = {"topics": "payments.eu", "topic": f"'{name}'", "routes": [name]}
        answer = edit(team, flow, **allowed, transforms=json.dumps([rule]))
        assert answer.status_code == status, answer.json()
    assert "It would write orders on backup" in str(answer.json())
    failing = {"topics": "payments.eu", "where": "value is not null", "on_error": "dead_letter"}
    letters = json.dumps([failing])
    assert edit(team, flow, **allowed, transforms=letters).status_code == 200
    named = {"transforms": letters, "dead.letter.topic": "salaries"}
    assert edit(team, flow, **allowed, **named).status_code == 400


def test_so_it_is_on_the_page(admin: APIClient, team: APIClient, flow: dict[str, Any]) -> None:
    bound(admin, "primary", RULES)
    browser = Client()
    browser.force_login(User.objects.get(username="ann"))
    path = f"/flows/{flow['id']}/edit/"
    page = browser.get(path)
    form = page.context["form"]
    given = {name: form.initial.get(name) or "" for name in form.fields}
    text = browser.post(path, {**given, "topics": "salaries"}).content.decode()
    assert "It would select salaries on primary" in text
    text = browser.post(path, {**given, "topics": "refunds"}).content.decode()
    assert "It would select" not in text


def test_who_may_edit_both_clusters_is_not_bound_nor_is_a_command(
    admin: APIClient, operator: APIClient, team: APIClient, flow: dict[str, Any]
) -> None:
    bound(admin, "primary", RULES)
    assert edit(operator, flow, topics="salaries").status_code == 200
    # What was allowed to somebody else stays allowed, and can be narrowed.
    assert edit(team, flow, topics="salaries", tasks_max="2").status_code == 200
    assert edit(team, flow, topics="refunds").status_code == 200
    assert edit(team, flow, topics="salaries").status_code == 400
    row = Flow.objects.get(pk=flow["id"])
    assert update_flow(flow=row, properties={"topics": "salaries"}, who="command line")
    for alias in ("primary", "backup"):
        body = {"username": "ann", "role": "editor", "scope": "cluster", "cluster": alias}
        assert admin.post("/api/v1/grants/", body).status_code == 201
    assert edit(client_of("ann"), flow, topics="orders").status_code == 200


def test_a_flow_without_labels_gets_no_further_topics(
    admin: APIClient, team: APIClient, flow: dict[str, Any]
) -> None:
    bound(admin, "primary", RULES)
    body = {"username": "ann", "role": "editor", "scope": "flow", "flow": flow["id"]}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    path = f"/api/v1/flows/{flow['id']}/"
    assert admin.patch(path, {"labels": []}, format="json").status_code == 200
    answer = edit(client_of("ann"), flow, topics="refunds")
    assert "a flow with no label" in str(answer.json()["error"]["fields"])


@pytest.mark.parametrize(
    "rules", ["payments", "payments ->", "-> x", "a b -> x", "a -> [", "a -> x,"]
)
def test_rules_that_cannot_be_used_are_refused_at_the_cluster(
    admin: APIClient, two_clusters: Any, rules: str
) -> None:
    body = {"properties": {"label.topics": rules}}
    answer = admin.patch("/api/v1/clusters/primary/", body, format="json")
    assert answer.status_code == 400
    assert "label.topics" in str(answer.json()["error"]["fields"])


def test_names_that_cannot_be_compared_are_not_allowed() -> None:
    """Nor does a rename excuse another one, although it may give the same names."""
    source = ClusterSpec(alias="a", bootstrap_servers="a:9", properties={"label.topics": "x -> x"})
    target = ClusterSpec(alias="b", bootstrap_servers="b:9", properties={"label.topics": "x -> x"})

    def spec(**properties: str) -> FlowSpec:
        given = {key.replace("_", "."): value for key, value in properties.items()}
        return FlowSpec.build(source=source, target=target, properties=given)

    hard = ",".join(f"(.*{letter}.{{150}}){{2}}.*" for letter in "abcdefgh")
    found = beyond_labels(spec(topics="x"), spec(topics=hard), {"x"})
    assert found is not None
    before = spec(topics="x1,x2", topic_rename="x1 -> one, x2 -> two")
    after = spec(topics="x1,x2", topic_rename="x1 -> two, x2 -> one")
    found = beyond_labels(before, after, {"x"})
    assert found is not None
    assert (found.cluster, found.does) == ("b", "write")
    with pytest.raises(InvalidSettings):
        spec(topics="(")
