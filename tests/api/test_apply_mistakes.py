"""Mistakes in declarative files: each is one sentence with file and line."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.api.test_apply import apply

TWO = (
    "kind: Cluster\nname: a\nspec: {bootstrap_servers: a:1}\n---\n"
    "kind: Cluster\nname: b\nspec: {bootstrap_servers: b:1}\n---\nkind: Flow\nname: a->b\n---\n"
)
MISTAKES = {
    "no YAML": ("kind: Cluster\nname: [east\n", 3, "not valid YAML"),
    "no mapping": ("- a\n- b\n", 1, "must be a mapping with kind, name and spec"),
    "no kind": ("name: east\n", 1, "kind is missing"),
    "unknown kind": (
        "\nkind: Kluster\nname: east\n",
        2,
        "There is no kind Kluster. Kinds: Cluster",
    ),
    "no name": ("kind: Cluster\nspec: {}\n", 1, "name is missing"),
    "field beside spec": ("kind: Cluster\nname: east\nslots: 3\n", 3, "Fields: kind, name, spec"),
    "spec is a list": ("kind: Cluster\nname: east\nspec: [1]\n", 3, "spec must be a mapping"),
    "field twice": ("kind: Cluster\nname: a\nspec:\n  ssl_ca: x\n  ssl_ca: y\n", 5, "given twice"),
    "unknown field": (
        "kind: Cluster\nname: east\nspec:\n  bootstrap_servers: e:1\n  bootstrap: e:1\n",
        5,
        "Cluster has no field bootstrap. Fields: bootstrap_servers",
    ),
    "same object twice": (
        "kind: Cluster\nname: e\nspec: {bootstrap_servers: e:1}\n---\nkind: Cluster\nname: e\n",
        5,
        "Cluster e is also at all.yaml:1",
    ),
    "missing field": ("kind: Cluster\nname: east\nspec: {ssl_ca: file:/x}\n", 1, "required"),
    "wrong value": (
        "kind: Cluster\nname: east\nspec:\n  bootstrap_servers: e:1\n  security_protocol: TLS\n",
        5,
        '"TLS" is not one of',
    ),
    "secret in the file": (
        "kind: Cluster\nname: e\nspec:\n  bootstrap_servers: e:1\n  sasl_password: hunter2\n",
        5,
        "env:",
    ),
    "unknown cluster": (
        "kind: Flow\nname: east->nowhere\nspec: {properties: {}}\n---\n"
        "kind: Cluster\nname: east\nspec: {bootstrap_servers: e:1}\n",
        1,
        "There is no cluster nowhere. Add a document",
    ),
    "unknown setting of a flow": (
        "kind: Cluster\nname: a\nspec: {bootstrap_servers: a:1}\n---\n"
        "kind: Cluster\nname: b\nspec: {bootstrap_servers: b:1}\n---\n"
        "kind: Flow\nname: a->b\nspec:\n  properties: {topiks: x}\n",
        12,
        "topiks",
    ),
    "a schedule without the one before": (
        "kind: Cluster\nname: a\nspec: {bootstrap_servers: a:1}\n---\n"
        "kind: Cluster\nname: b\nspec: {bootstrap_servers: b:1}\n---\n"
        'kind: Flow\nname: a->b\n---\nkind: Drill\nname: a->b#2\nspec: {schedule: "0 4 * * *"}\n',
        12,
        "needs Drill a->b before it",
    ),
    "no label": (
        "kind: Cluster\nname: a\nspec: {bootstrap_servers: a:1}\n---\n"
        "kind: Cluster\nname: b\nspec: {bootstrap_servers: b:1}\n---\n"
        "kind: Flow\nname: a->b\nspec:\n  labels: [team a]\n",
        12,
        "letters, digits, dots",
    ),
    "no number of a schedule": ("kind: Drill\nname: a->b#1\n", 1, "The first one is a->b, the"),
    "objectives of no flow": ("kind: Objectives\nname: a->b\n", 1, "There is no flow a->b. Add"),
    "a price of no flow": ("kind: Price\nname: west\n", 1, "correct the name: SOURCE->TARGET"),
    "a part of a refused flow": (
        f"{TWO}kind: Price\nname: a->b\nspec: {{per_gb: 1, currency: EUR}}\n".replace(
            "name: a->b\n---", "name: a->b\nspec: {desired_state: flying}\n---"
        ),
        11,
        "flying",
    ),
    "an objective below zero": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  rpo_seconds: -1\n",
        15,
        "rpo_seconds: Ensure this value is greater than or equal to 0",
    ),
    "an objective of more than a year": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  rto_seconds: 31536001\n",
        15,
        "It must be a whole number from 1 to 31,536,000, not 31,536,001.",
    ),
    "an objective as text": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  rpo_records: few\n",
        15,
        "rpo_records: A valid integer is required",
    ),
    "no objective": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  slo: 99.9\n",
        15,
        "Objectives has no field slo. Fields: rpo_seconds, rpo_records, rto_seconds.",
    ),
    "a budget without a price": (
        f"{TWO}kind: Price\nname: a->b\nspec:\n  monthly_budget: 500\n",
        12,
        "Enter the price of a gigabyte: there is none yet.",
    ),
    "a price without a currency": (
        f"{TWO}kind: Price\nname: a->b\nspec:\n  per_gb: 0.02\n",
        12,
        "Enter the three letters of a currency, such as EUR.",
    ),
    "a price below zero": (
        f"{TWO}kind: Price\nname: a->b\nspec:\n  per_gb: -0.02\n  currency: EUR\n",
        15,
        "per_gb: Enter a price of 0 or more.",
    ),
    "a price with seven decimals": (
        f"{TWO}kind: Price\nname: a->b\nspec:\n  per_gb: '0.0000001'\n  currency: EUR\n",
        15,
        "no more than 6 decimal places",
    ),
    "a budget of nothing": (
        f"{TWO}kind: Price\nname: a->b\nspec:\n  per_gb: 1\n  currency: EUR\n  monthly_budget: 0\n",
        17,
        "Enter a budget above 0, or leave it empty.",
    ),
    "two prices of a flow": (
        f"{TWO}kind: Price\nname: a->b\nspec: {{per_gb: 1, currency: EUR}}\n---\n"
        "kind: Price\nname: a->b\n",
        16,
        "Price a->b is also at all.yaml:12",
    ),
    "a tab": ("kind: Cluster\nname: e\nspec:\n\tssl_ca: x\n", 4, "indented with a tab"),
    "wrong indentation": (
        "kind: Cluster\nname: e\nspec:\n  ssl_ca: x\n   ssl_key: y\n",
        5,
        "indented further than its neighbors",
    ),
    "a colon in a name": ("kind: AlertRule\nname: Late: east\n", 2, "lacks quotation marks"),
    "an open quotation mark": (
        'kind: Cluster\nname: e\nspec:\n  ssl_ca: "x\n',
        5,
        "quotation mark is not closed",
    ),
    "a cron that begins with a star": (
        "kind: Drill\nname: a->b\nspec:\n  schedule: * * * * *\n",
        4,
        "begins with * lacks quotation marks",
    ),
    "a value of another type": (
        "kind: Cluster\nname: e\nspec:\n  ssl_ca: !!int abc\n",
        4,
        "abc is not a whole number that can be read",
    ),
    "a flag that is none": (
        "kind: Cluster\nname: e\nspec:\n  ssl_ca: !!bool maybe\n",
        4,
        "maybe is not a value that can be read",
    ),
    "a number of 5,000 digits": (
        f"kind: Objectives\nname: a->b\nspec:\n  rpo_seconds: {'9' * 5000}\n",
        4,
        "is not a whole number that can be read",
    ),
    "a control character": ("kind: Cluster\nname: e\x07\n", 2, "has a control character"),
    "a resource of Kubernetes": (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n",
        1,
        "understudy import FILE --kind strimzi reads it",
    ),
    "fields beside an empty spec": (
        "kind: Cluster\nname: e\nspec:\nssl_ca: x\n",
        4,
        "Indent ssl_ca below spec",
    ),
    "a misspelled kind": ("kind: Clustr\nname: e\n", 1, "Did you mean Cluster?"),
    "a misspelled field": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  rpo_second: 3\n",
        15,
        "Did you mean rpo_seconds?",
    ),
    "a number without end": (
        f"{TWO}kind: Objectives\nname: a->b\nspec:\n  rpo_seconds: .inf\n",
        15,
        ".inf is not a number that can be read",
    ),
    "properties as text": (
        f"{TWO}---\n".replace("a->b\n---", "a->b\nspec:\n  properties: orders\n---"),
        12,
        "It must be a mapping of names to values",
    ),
    "a list as a value": (
        f"{TWO}---\n".replace(
            "a->b\n---", "a->b\nspec:\n  properties:\n    groups: x\n    topics: [a, b]\n---"
        ),
        14,
        "Write a list as one text",
    ),
    "a setting without a value": (
        f"{TWO}---\n".replace("a->b\n---", "a->b\nspec:\n  properties:\n    topics:\n---"),
        13,
        "Its value is missing",
    ),
    "a flag of another language": (
        f"{TWO}---\n".replace(
            "a->b\n---", "a->b\nspec:\n  properties:\n    sync.group.offsets.enabled: yes\n---"
        ),
        13,
        "must be true or false, not 'yes'",
    ),
    "a flow without an arrow": ("kind: Flow\nname: a-b\n", 1, "Write SOURCE->TARGET"),
    "an unknown channel": (
        "kind: AlertRule\nname: Late\nspec:\n  kind: time_lag\n  channels: [on-call]\n",
        5,
        "There is no channel on-call. Add a document with this name",
    ),
    "a name of brackets": (
        "kind: Cluster\nname: e\nspec:\n  ? [a]\n  : b\n",
        4,
        "without brackets",
    ),
    "alias": ("kind: Cluster\nname: &a east\nspec: {ssl_ca: *a}\n", 3, "aliases"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_with_file_and_line(admin: APIClient, mistake: str) -> None:
    text, line, words = MISTAKES[mistake]
    plan = apply(admin, text)
    (problem,) = plan["problems"]
    assert problem["where"] == f"all.yaml:{line}", problem
    assert words in problem["sentence"], problem
    assert not plan["applicable"]
    assert "hunter2" not in problem["sentence"]


@pytest.mark.parametrize("closed", ["", "]" * 5000 + "}"])
def test_many_nested_brackets_are_a_sentence(admin: APIClient, closed: str) -> None:
    plan = apply(admin, "kind: Cluster\nname: a\nspec: {ssl_ca: " + "[" * 5000 + closed)
    (problem,) = plan["problems"]
    assert problem["where"] == "all.yaml:3"
    assert "more than 20 levels" in problem["sentence"]


def test_texts_below_properties_and_labels_stay_as_they_are_written(admin: APIClient) -> None:
    spec = (
        "spec:\n  labels: [no]\n  properties:\n    topics: no\n"
        "    sync.group.offsets.enabled: true\n    replication.factor: 3\n---"
    )
    plan = apply(admin, TWO.replace("a->b\n---", f"a->b\n{spec}"))
    assert plan["problems"] == []
    flow = next(change for change in plan["changes"] if change["kind"] == "Flow")
    becomes = {field["name"]: field["becomes"] for field in flow["fields_changed"]}
    assert becomes["labels"] == ["no"]
    assert becomes["properties"]["topics"] == "no"
    assert becomes["properties"]["sync.group.offsets.enabled"] == "true"
    assert becomes["properties"]["replication.factor"] == "3"
