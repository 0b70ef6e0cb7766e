"""`topic.rename` over REST: saved, refused, explained, applied, imported, and kept for copies."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.models import Cluster, Flow
from tests.api.test_apply import applied
from tests.api.test_import_export import FILE
from tests.api.test_import_export import body as file_body
from tests.pages import world

RENAME = "topic.rename"
RULES = r"orders\.(.*) -> west_$1"
FLOWS = "/api/v1/flows/"
SOUTH = """\
kind: Flow
name: primary->backup
spec:
  properties: {topics: ".*", topic.rename: "orders -> sales"}
  desired_state: stopped
"""


def body(**properties: str) -> dict[str, Any]:
    found = {"topics": ".*", RENAME: RULES, **properties}
    return {"source": "primary", "target": "backup", "properties": found}


@pytest.fixture
def two_clusters(admin: APIClient) -> None:
    """Of other addresses: two aliases of one cluster would copy copies of renamed topics."""
    for port, alias in enumerate(("primary", "backup"), 9):
        answer = {"alias": alias, "bootstrap_servers": f"127.0.0.1:{port}"}
        assert admin.post("/api/v1/clusters/", answer).status_code == 201


@pytest.fixture
def flow(operator: APIClient, two_clusters: Any) -> dict[str, Any]:
    made = operator.post(FLOWS, {**body(), "desired_state": "stopped"}, format="json")
    assert made.status_code == 201, made.json()
    return dict(made.json())


def refusal(answer: Any) -> str:
    assert answer.status_code == 400, answer.json()
    fields = answer.json()["error"]["fields"]
    assert list(fields) == [RENAME]
    return str(fields[RENAME][0])


def test_a_flow_shows_its_rules_and_explain_names_the_one_of_a_topic(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    assert flow["properties"][RENAME] == RULES
    found = viewer.get(f"{FLOWS}{flow['id']}/explain/?topic=orders.eu").json()
    assert found["remote_topic"] == "west_eu"
    rule = next(row for row in found["rules"] if row["rule"] == RENAME)
    assert rule["reason"] == rf"rule 1 of topic.rename ({RULES}) names it west_eu"
    other = viewer.get(f"{FLOWS}{flow['id']}/explain/?topic=bills").json()
    assert other["remote_topic"] == "primary.bills"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("(a -> b", "cannot use rule 1 ((a -> b): the expression has a bracket"),
        ("a -> $1", "the name has $1, but the expression has no group"),
        ("heartbeats -> beats", "heartbeats keeps the name"),
        ("a -> x, b -> x", "one name, x"),
    ],
)
def test_rules_that_cannot_work_are_refused_at_their_key(
    operator: APIClient, two_clusters: Any, value: str, words: str
) -> None:
    answer = operator.post(FLOWS, body(**{RENAME: value}), format="json")
    assert words in refusal(answer)


def test_topics_that_a_flow_saw_must_not_get_one_name(
    operator: APIClient, two_clusters: Any
) -> None:
    beside = world.flow(Cluster.objects.get(alias="primary"))
    world.topic(beside, "orders-v1")
    world.topic(beside, "orders-v2", state="skipped")
    answer = operator.post(FLOWS, body(**{RENAME: "(.*)-v[0-9] -> $1"}), format="json")
    assert "gives orders-v1 and orders-v2 one name on the target, orders" in refusal(answer)
    exact = {RENAME: "orders-v1 -> orders", "topics": ".*"}
    assert operator.post(FLOWS, body(**exact), format="json").status_code == 201


def test_a_replicated_topic_keeps_its_name(operator: APIClient, flow: dict[str, Any]) -> None:
    row = Flow.objects.get(pk=flow["id"])
    world.partition(row, "orders.eu")
    world.partition(row, "bills")
    place = f"{FLOWS}{flow['id']}/"

    def change(value: str) -> Any:
        found = {"properties": {**row.properties, RENAME: value}}
        return operator.patch(place, found, format="json")

    said = refusal(change("(.*) -> east_$1"))
    assert said.startswith("It would rename topics that primary->backup replicates: ")
    assert (
        "bills from primary.bills to east_bills, orders.eu from west_eu to east_orders.eu" in said
    )
    kept = r"bills -> primary.bills, orders\.eu -> west_eu"
    assert said.endswith(f"begin topic.rename with: {kept}.")
    assert change(f"{kept}, (.*) -> east_$1").status_code == 200
    assert Flow.objects.get(pk=row.pk).generation == row.generation + 1


def test_a_flow_back_that_selects_copies_is_refused(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    Flow.objects.update(desired_state="running")
    back = {"source": "backup", "target": "primary", "properties": {"topics": "west_.*"}}
    said = refusal(operator.post(FLOWS, back, format="json"))
    assert "west_ on backup can be a copy of a topic of primary" in said
    back["properties"] = {"topics": "own_.*"}
    assert operator.post(FLOWS, back, format="json").status_code == 201


def test_reverse_does_not_guess_names(operator: APIClient, flow: dict[str, Any]) -> None:
    answer = operator.post(f"{FLOWS}{flow['id']}/reverse/", {}, format="json")
    assert answer.status_code == 409
    assert "A failback creates the reverse flow" in answer.json()["error"]["message"]


def test_rules_are_declared_in_files(admin: APIClient, two_clusters: Any) -> None:
    applied(admin, SOUTH)
    assert Flow.objects.get().properties[RENAME] == "orders -> sales"


def test_a_file_with_a_regex_router_is_imported(admin: APIClient) -> None:
    text = FILE + (
        "primary->backup.transforms = r\n"
        "primary->backup.transforms.r.type = org.apache.kafka.connect.transforms.RegexRouter\n"
        "primary->backup.transforms.r.regex = primary\\\\.(.*)\n"
        "primary->backup.transforms.r.replacement = west_$1\n"
    )
    seen = admin.post("/api/v1/imports/", file_body(text)).json()
    assert seen["applicable"], seen["lines"]
    made = admin.post("/api/v1/imports/", file_body(text, digest=seen["digest"]))
    assert made.status_code == 201, made.json()
    assert Flow.objects.get().properties[RENAME] == "(.*) -> west_$1"
