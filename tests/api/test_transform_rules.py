"""Rules on records over REST: saved, refused, shown, explained, recorded, exported and applied."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.domain.transforms import rules
from mirrors.models import Cluster, Flow

RULES = json.dumps([{"topics": "orders.*", "where": "value is not null"}, {"topics": "a"}])
BODY = {"source": "primary", "target": "backup", "properties": {"transforms": RULES}}


@pytest.fixture
def flow(operator: APIClient, two_clusters: Any) -> dict[str, Any]:
    made = operator.post("/api/v1/flows/", BODY)
    assert made.status_code == 201, made.json()
    return dict(made.json())


def test_rules_are_shown_as_objects_too(flow: dict[str, Any]) -> None:
    assert flow["properties"]["transforms"] == RULES
    first, second = flow["transforms"]
    assert (first["number"], first["where"], first["value"]) == (1, "value is not null", None)
    assert second == {
        "number": 2, "topics": "a", "where": None, "key": None, "value": None, "headers": None,
        "topic": None, "routes": [], "modules": {}, "on_error": "stop", "provenance": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b", "transforms cannot be used: must be a JSON list of rules"),
        ('[{"topics": "a", "topic": "b"}]', "rule 1, topic: needs routes: list the topics on"),
        ('[{"topics": "a", "where": "rand() < 1"}]', "transforms, rule 1, where: must not use ra"),
        ('[{"topics": "a", "value": "hmac_value(value, \'env:PATH\')"}]', "is not allowed"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_at_its_key(
    operator: APIClient, two_clusters: Any, text: str, sentence: str
) -> None:
    answer = operator.post("/api/v1/flows/", {**BODY, "properties": {"transforms": text}})
    assert answer.status_code == 400
    fields = answer.json()["error"]["fields"]
    assert list(fields) == ["transforms"]
    assert sentence in fields["transforms"][0]


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("env:KAFKA_WEST_PASSWORD", "variables named UNDERSTUDY_MASK_"),
        ("env:KAFKA_OF_NO_CLUSTER_YET", "variables named UNDERSTUDY_MASK_"),
        ("env:UNDERSTUDY_MASK_CUSTOMERS", ""),
        ("file:/run/secrets/../secrets/west.key", "secret"),
        ("properties:/run/secrets/west.key:password", "whose name begins with mask"),
        ("properties:/run/secrets/mask-west.key:password", "secret of a cluster"),
        ("file:/run/secrets/mask.key", ""),
    ],
)
def test_a_mask_uses_only_secrets_of_masks(
    operator: APIClient, admin: APIClient, flow: dict[str, Any], reference: str, sentence: str
) -> None:
    """Masks of guesses, which a preview shows, would confirm the right guess."""
    Cluster.objects.filter(alias="backup").update(
        sasl_password="env:KAFKA_WEST_PASSWORD", ssl_key="file:/run/secrets/mask-west.key"
    )
    rule = json.dumps([{"topics": "a", "value": f"hmac_value('guess', '{reference}')"}])
    url = f"/api/v1/flows/{flow['id']}/"
    body = {"properties": {"transforms": rule}}
    answers = [
        operator.patch(url, body),
        operator.post(f"{url}rules/preview/", {"topic": "a", "transforms": rule}),
    ]
    for answer in answers:
        assert ("rule 1, value" in answer.content.decode()) == bool(sentence), answer.json()
        assert sentence in answer.content.decode()


def test_a_variable_that_a_rule_named_before_goes_on_in_its_flow_only(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    other = operator.post("/api/v1/flows/", {"source": "backup", "target": "primary"}).json()
    old = [{"topics": "a", "value": "hmac_value(value, 'env:KAFKA_OLD')"}]
    Flow.objects.filter(pk=flow["id"]).update(properties={"transforms": json.dumps(old)})
    more = json.dumps([*old, {"topics": "b", "value": "hmac_value(key, 'env:KAFKA_OLD')"}])
    body = {"properties": {"transforms": more}}
    url = f"/api/v1/flows/{flow['id']}/"
    assert operator.post(f"{url}preview/", body).status_code == 200
    edited = operator.patch(url, body)
    assert edited.status_code == 200
    assert "still works, but new rules need UNDERSTUDY_MASK_" in str(edited.json()["warnings"])
    for action in ("stop", "start"):
        assert operator.post(f"{url}{action}/").status_code == 200
    new = json.dumps([{"topics": "a", "value": "hmac_value(value, 'env:KAFKA_NEW')"}])
    assert operator.patch(url, {"properties": {"transforms": new}}).status_code == 400
    there = operator.patch(f"/api/v1/flows/{other['id']}/", body)
    assert there.status_code == 400
    assert "UNDERSTUDY_MASK_" in there.json()["error"]["fields"]["transforms"][0]


def test_an_explanation_names_the_rule(operator: APIClient, flow: dict[str, Any]) -> None:
    url = f"/api/v1/flows/{flow['id']}/explain/?topic="
    found = operator.get(f"{url}orders-eu").json()
    assert found["transform_rule"] == 1
    reasons = {rule["rule"]: rule["reason"] for rule in found["rules"]}
    assert reasons["transforms"] == "rule 1 (orders.*) drops records"
    other = operator.get(f"{url}payments").json()
    assert other["transform_rule"] is None
    assert "no rule matches it" in {rule["reason"].partition(": ")[2] for rule in other["rules"]}
    assert operator.get(f"{url}__internal").json()["transform_rule"] is None


def test_an_edit_of_rules_is_previewed_recorded_and_audited(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    url = f"/api/v1/flows/{flow['id']}/"
    body = {"properties": {"transforms": '[{"topics": "b", "key": "value"}]'}}
    preview = operator.post(f"{url}preview/", body).json()
    assert [change["key"] for change in preview["changes"]] == ["transforms"]
    assert operator.patch(url, body).status_code == 200
    edit = operator.get(f"{url}history/").json()["results"][0]
    assert edit["before"] == RULES
    assert edit["after"] == body["properties"]["transforms"]
    assert edit["who"]


def test_the_reverse_flow_has_no_rules(operator: APIClient, flow: dict[str, Any]) -> None:
    assert operator.post(f"/api/v1/flows/{flow['id']}/reverse/").json()["properties"] == {}


def test_a_document_applies_rules_of_several_lines(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    (file,) = operator.get("/api/v1/apply/").json()["files"]
    assert "value is not null" in file["text"]
    again = operator.post("/api/v1/apply/", {"files": [file]}).json()
    assert not again["problems"]
    assert {change["action"] for change in again["changes"]} == {"none"}
    changed = """\
kind: Flow
name: primary->backup
spec:
  properties:
    transforms: >-
      [
        {"topics": "orders.*", "value": "json_drop(value, 'card')"}
      ]
"""
    body = {"files": [{"name": "all.yaml", "text": changed}]}
    plan = operator.post("/api/v1/apply/", body).json()
    assert not plan["problems"], plan
    assert operator.post("/api/v1/apply/", {**body, "digest": plan["digest"]}).json()["applied"]
    stored = Flow.objects.get().properties["transforms"]
    assert stored.isprintable()
    assert [rule.value for rule in rules.parse_rules(stored)] == ["json_drop(value, 'card')"]
