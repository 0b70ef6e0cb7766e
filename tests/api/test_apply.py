"""Declarative files over REST: plan, apply, export; a mistake is a sentence with file and line."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rest_framework.test import APIClient

from controlplane.declarations.documents import MAX_DOCUMENTS, File, read_files
from controlplane.declarations.kinds import KINDS
from mirrors.models import Cluster, Drill, Flow, FlowObjectives, Transition
from monitoring.models import AlertRule, Channel, TransferPrice

ALL = """\
kind: Flow
name: east->west
spec:
  properties: {topics: "orders.*"}
  desired_state: stopped
---
kind: Cluster
name: east
spec: {bootstrap_servers: "east-1:9092, east-2:9092"}
---
kind: Cluster
name: west
spec:
  bootstrap_servers: west:9093
  security_protocol: SASL_SSL
  sasl_mechanism: PLAIN
  sasl_username: understudy
  sasl_password: env:KAFKA_WEST_PASSWORD
---
kind: Channel
name: on-call
spec: {kind: webhook, target: "https://hooks.example/understudy"}
---
kind: AlertRule
name: East is late
spec: {kind: time_lag, flow: east->west, threshold: 60, channels: [on-call]}
---
kind: Drill
name: east->west
spec: {schedule: "0 3 * * 1", time_zone: Europe/Berlin}
"""


def apply(client: APIClient, text: str, **more: Any) -> dict[str, Any]:
    body = {"files": [{"name": "all.yaml", "text": text}], **more}
    answer = client.post("/api/v1/apply/", body, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def applied(client: APIClient, text: str) -> dict[str, Any]:
    plan = apply(client, text)
    assert plan["problems"] == []
    done = apply(client, text, digest=plan["digest"])
    assert done == {**plan, "applied": True}
    return done


def actions(answer: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(row["kind"], row["name"]): row["action"] for row in answer["changes"]}


def test_a_plan_changes_nothing_and_says_what_applying_creates(admin: APIClient) -> None:
    rules, audited = AlertRule.objects.count(), Transition.objects.count()
    plan = apply(admin, ALL)
    assert set(actions(plan).values()) == {"create"}
    assert len(plan["changes"]) == 6
    assert not plan["applied"]
    assert not Cluster.objects.exists()
    assert AlertRule.objects.count() == rules
    assert Transition.objects.count() == audited


def test_documents_are_applied_in_the_order_that_they_need(admin: APIClient) -> None:
    applied(admin, ALL)
    flow = Flow.objects.get()
    assert flow.name == "east->west"
    assert flow.properties["topics"] == "orders.*"
    assert Cluster.objects.get(alias="west").sasl_password == "env:KAFKA_WEST_PASSWORD"
    rule = AlertRule.objects.get(name="East is late")
    assert (rule.flow, rule.threshold) == (flow, 60)
    assert [channel.name for channel in rule.channels.all()] == ["on-call"]


def test_applying_again_changes_nothing_and_leaves_no_audit_row(admin: APIClient) -> None:
    applied(admin, ALL)
    before = Transition.objects.count()
    again = applied(admin, ALL)
    assert set(actions(again).values()) == {"none"}
    assert Transition.objects.count() == before


def test_a_change_names_the_field_with_both_values_and_is_audited(admin: APIClient) -> None:
    applied(admin, ALL)
    before = Transition.objects.count()
    done = applied(admin, ALL.replace("threshold: 60", "threshold: 90"))
    (changed,) = [row for row in done["changes"] if row["action"] == "change"]
    assert (changed["kind"], changed["where"]) == ("AlertRule", "all.yaml:24")
    assert changed["fields_changed"] == [
        {"name": "threshold", "was": 60.0, "becomes": 90.0, "drifted": False}
    ]
    assert Transition.objects.count() == before + 1


def test_one_refused_document_and_nothing_of_the_others_is_applied(admin: APIClient) -> None:
    text = ALL.replace("threshold: 60", "threshold: many")
    plan = apply(admin, text)
    assert [problem["where"] for problem in plan["problems"]] == ["all.yaml:26"]
    done = apply(admin, text, digest=plan["digest"])
    assert not done["applied"]
    assert not Cluster.objects.exists()
    assert not Channel.objects.exists()


def test_a_plan_that_is_no_longer_true_is_not_applied(admin: APIClient) -> None:
    plan = apply(admin, ALL)
    body = {"files": [{"name": "all.yaml", "text": ALL}], "digest": plan["digest"]}
    body["files"][0]["text"] += "---\nkind: Cluster\nname: north\nspec: {bootstrap_servers: n:1}\n"
    answer = admin.post("/api/v1/apply/", body, format="json")
    assert answer.status_code == 409
    assert "Plan again" in answer.json()["error"]["message"]
    assert not Cluster.objects.exists()


def test_each_document_needs_the_right_of_its_own_address(
    admin: APIClient, operator: APIClient, viewer: APIClient
) -> None:
    applied(admin, ALL)
    narrowed = "kind: Flow\nname: east->west\nspec: {properties: {topics: clicks}}\n"
    moved = "kind: Cluster\nname: east\nspec: {bootstrap_servers: elsewhere:9092}\n"
    assert actions(apply(operator, narrowed)) == {("Flow", "east->west"): "change"}
    plan = apply(operator, moved)
    assert plan["changes"] == []
    (problem,) = plan["problems"]
    assert problem["where"] == "all.yaml:1"
    assert "role" in problem["sentence"]
    body = {"files": [{"name": "all.yaml", "text": narrowed}]}
    assert viewer.post("/api/v1/apply/", body, format="json").status_code == 403
    assert viewer.get("/api/v1/apply/").status_code == 200


def test_an_export_applied_again_changes_nothing_and_makes_the_same_elsewhere(
    admin: APIClient,
) -> None:
    applied(admin, ALL)
    (file,) = admin.get("/api/v1/apply/").json()["files"]
    assert set(actions(applied(admin, file["text"])).values()) == {"none"}
    AlertRule.objects.all().delete()
    Flow.objects.all().delete()
    Cluster.objects.all().delete()
    Channel.objects.all().delete()
    applied(admin, file["text"])
    (again,) = admin.get("/api/v1/apply/").json()["files"]
    assert again["text"] == file["text"]


FURTHER = """\
kind: Drill
name: east->west#3
spec: {schedule: "0 5 * * *", groups: [billing]}
---
kind: Drill
name: east->west#2
spec: {schedule: "0 4 * * *", enabled: false}
"""


def test_every_schedule_of_a_flow_is_exported_and_comes_back(admin: APIClient) -> None:
    applied(admin, f"{ALL}---\n{FURTHER}")
    assert [drill.schedule for drill in Drill.objects.order_by("pk")] == [
        *("0 3 * * 1", "0 4 * * *", "0 5 * * *")
    ]
    (file,) = admin.get("/api/v1/apply/").json()["files"]
    for name in ("east->west\n", "east->west#2\n", "east->west#3\n"):
        assert f"kind: Drill\nname: {name}" in file["text"]
    assert set(actions(applied(admin, file["text"])).values()) == {"none"}
    later = file["text"].replace("0 4 * * *", "30 4 * * *")
    assert actions(applied(admin, later))["Drill", "east->west#2"] == "change"
    Drill.objects.all().delete()
    applied(admin, file["text"])
    assert set(actions(apply(admin, file["text"])).values()) == {"none"}
    assert Drill.objects.count() == 3


def test_an_export_says_what_the_person_may_not_read(admin: APIClient, operator: APIClient) -> None:
    applied(admin, 'kind: Hook\nname: dns\nspec: {url: "https://dns.example/switch"}\n')
    whole = admin.get("/api/v1/apply/").json()
    assert whole["left_out"] == []
    assert "https://dns.example/switch" in whole["files"][0]["text"]
    partial = operator.get("/api/v1/apply/").json()
    assert partial["left_out"] == [
        {
            "kind": "Hook",
            "name": "dns",
            "fields_left_out": ["url", "headers", "secret"],
            "reason": "Only admins may read them; an export by an admin has them.",
        }
    ]
    head = partial["files"][0]["text"].partition("kind:")[0]
    assert "# - Hook dns: url, headers, secret. Only admins may read them" in head
    assert apply(admin, partial["files"][0]["text"])["problems"] == []


def test_labels_are_applied_and_exported(admin: APIClient) -> None:
    labelled = ALL.replace("spec:\n  properties", "spec:\n  labels: [team-b, team-a]\n  properties")
    applied(admin, labelled)
    assert [one.name for one in Flow.objects.get().labels.all()] == ["team-a", "team-b"]
    assert set(actions(apply(admin, labelled)).values()) == {"none"}
    (file,) = admin.get("/api/v1/apply/").json()["files"]
    assert "  labels:\n  - team-a\n  - team-b\n" in file["text"]
    fewer = applied(admin, "kind: Flow\nname: east->west\nspec: {labels: []}\n")
    assert fewer["changes"][0]["fields_changed"] == [
        {"name": "labels", "was": ["team-a", "team-b"], "becomes": [], "drifted": False}
    ]


def test_what_somebody_changed_is_overwritten_only_when_told(
    admin: APIClient, operator: APIClient
) -> None:
    """A failover stops a flow; the next run of a pipeline must not start it again unseen."""
    applied(admin, ALL.replace("desired_state: stopped", "desired_state: running"))
    flow = Flow.objects.get()
    assert operator.post(f"/api/v1/flows/{flow.pk}/stop/").status_code == 200
    body = {"properties": {"topics": "orders.*", "tasks.max": "4"}}
    assert operator.patch(f"/api/v1/flows/{flow.pk}/", body).status_code == 200
    text = ALL.replace("desired_state: stopped", "desired_state: running")
    plan = apply(admin, text)
    assert not plan["applicable"]
    assert [problem["where"] for problem in plan["problems"]] == ["all.yaml:4", "all.yaml:5"]
    settings, state = (problem["sentence"] for problem in plan["problems"])
    assert settings.startswith(
        "Flow east->west, properties (tasks.max): somebody changed it after admin applied it at "
    )
    assert 'from {"tasks.max": null} to {"tasks.max": "4"}' in settings
    assert 'from "running" to "stopped". Take it into the file, or apply with' in state
    assert not apply(admin, text, digest=plan["digest"])["applied"]
    assert Flow.objects.get().desired_state == "stopped"
    # A file that says what is there now is no problem, nor is another field.
    now = text.replace('"orders.*"}', '"orders.*", tasks.max: "4"}').replace("running", "stopped")
    assert apply(admin, now)["problems"] == []
    plan = apply(admin, text, overwrite_drift=True)
    (change,) = [row for row in plan["changes"] if row["action"] != "none"]
    assert {field["name"]: field["drifted"] for field in change["fields_changed"]} == {
        "properties": True,
        "desired_state": True,
    }
    told = apply(admin, text, overwrite_drift=True, digest=plan["digest"])
    assert told["applied"]
    assert Flow.objects.get().desired_state == "running"
    assert apply(admin, text)["problems"] == []


def test_an_own_change_of_the_file_is_no_drift(admin: APIClient) -> None:
    applied(admin, ALL)
    applied(admin, ALL.replace("threshold: 60", "threshold: 90"))
    applied(admin, ALL)


def test_prune_deletes_what_no_file_has_any_more_and_nothing_else(
    admin: APIClient, operator: APIClient
) -> None:
    more = """\
---
kind: Cluster
name: north
spec: {bootstrap_servers: "north:9092"}
---
kind: Flow
name: east->north
spec: {labels: [payments], properties: {topics: a}, desired_state: stopped}
---
kind: AlertRule
name: North is late
spec: {kind: time_lag, flow: east->north, threshold: 60, channels: [on-call]}
---
kind: Drill
name: east->north
spec: {schedule: "0 3 * * 1"}
"""
    labelled = ALL.replace("spec:\n  properties", "spec:\n  labels: [payments]\n  properties")
    applied(admin, labelled + more)
    north = more.partition("---\nkind: Flow")[0]
    assert {*actions(apply(admin, labelled + north)).values()} == {"none"}
    assert apply(admin, labelled + north, prune="other")["problems"][0]["sentence"].startswith(
        "No flow of the files has the label other, so prune would delete all of them."
    )
    Flow.objects.filter(target__alias="north").update(desired_state="running")
    (problem,) = apply(admin, labelled + north, prune="payments")["problems"]
    assert problem["where"] == "label:payments"
    assert "east->north is not stopped. Stop it" in problem["sentence"]
    Flow.objects.filter(target__alias="north").update(desired_state="stopped")
    plan = apply(admin, labelled + north, prune="payments")
    gone = [(row["kind"], row["name"]) for row in plan["changes"] if row["action"] == "delete"]
    assert gone == [
        ("Drill", "east->north"), ("AlertRule", "North is late"), ("Flow", "east->north")
    ]  # fmt: skip
    assert Flow.objects.count() == 2
    done = apply(admin, labelled + north, prune="payments", digest=plan["digest"])
    assert done["applied"]
    assert [flow.name for flow in Flow.objects.all()] == ["east->west"]
    assert Cluster.objects.filter(alias="north").exists()
    assert AlertRule.objects.filter(name="East is late").exists()
    again = apply(admin, labelled + north, prune="payments")
    assert {*actions(again).values()} == {"none"}
    assert Transition.objects.filter(name="east->north", to_state="deleted", who="admin").exists()


PARTS = """\
---
kind: Price
name: east->west
spec: {per_gb: 0.02, currency: EUR, monthly_budget: 500}
---
kind: Objectives
name: east->west
spec: {rpo_seconds: 60, rto_seconds: 900}
"""


def test_objectives_and_a_price_are_made_changed_and_emptied(admin: APIClient) -> None:
    before = Transition.objects.count()
    done = actions(applied(admin, ALL + PARTS))
    assert {
        kind: action for (kind, _), action in done.items() if kind in ("Objectives", "Price")
    } == {
        "Objectives": "create",
        "Price": "create",
    }
    assert Transition.objects.filter(to_state__in=["objectives", "price set"]).count() == 2
    assert FlowObjectives.objects.get().spec.rto_seconds == 900
    price = TransferPrice.objects.get()
    assert (price.source.alias, price.target.alias, price.currency) == ("east", "west", "EUR")
    made = Transition.objects.count()
    assert made > before
    # Other texts of the same values change nothing.
    same = PARTS.replace("0.02", '"0.020"').replace("EUR", "eur").replace("500", "500.00")
    assert set(actions(applied(admin, ALL + same)).values()) == {"none"}
    assert Transition.objects.count() == made
    # A field that a document leaves out keeps its value.
    part = "kind: Price\nname: east->west\nspec: {monthly_budget: 600}\n"
    (change,) = applied(admin, part)["changes"]
    assert change["fields_changed"] == [
        {"name": "monthly_budget", "was": "500", "becomes": "600", "drifted": False}
    ]
    price.refresh_from_db()
    assert (price.per_gb, price.monthly_budget) == (Decimal("0.02"), 600)
    emptied = "kind: Objectives\nname: east->west\nspec: {rpo_seconds: null, rto_seconds: null}\n"
    assert actions(applied(admin, emptied)) == {("Objectives", "east->west"): "change"}
    gone = "kind: Price\nname: east->west\nspec: {per_gb: null}\n"
    (change,) = applied(admin, gone)["changes"]
    assert (change["action"], change["fields_changed"][0]["becomes"]) == ("change", None)
    assert not TransferPrice.objects.exists()
    (file,) = admin.get("/api/v1/apply/").json()["files"]
    assert "Objectives" not in file["text"]
    assert "Price" not in file["text"]


def test_parts_of_a_flow_come_back_without_drift_after_somebody_removed_them(
    admin: APIClient,
) -> None:
    applied(admin, ALL + PARTS)
    flow = Flow.objects.get()
    assert admin.delete(f"/api/v1/flows/{flow.pk}/price/").status_code == 204
    assert admin.delete(f"/api/v1/flows/{flow.pk}/objectives/").status_code == 204
    plan = apply(admin, ALL + PARTS)
    assert plan["problems"] == []
    assert actions(plan)["Price", "east->west"] == "create"
    applied(admin, ALL + PARTS)
    admin.patch(f"/api/v1/flows/{flow.pk}/objectives/", {"rpo_seconds": 5})
    (problem,) = apply(admin, ALL + PARTS)["problems"]
    assert "Objectives east->west, rpo_seconds: somebody changed it" in problem["sentence"]
    assert "from 60 to 5." in problem["sentence"]


def test_a_price_needs_an_admin_and_objectives_an_operator(
    admin: APIClient, operator: APIClient
) -> None:
    applied(admin, ALL)
    plan = apply(operator, PARTS)
    assert actions(plan) == {("Objectives", "east->west"): "create"}
    (problem,) = plan["problems"]
    assert problem["where"] == "all.yaml:2"
    assert "role" in problem["sentence"]


def test_prune_deletes_objectives_and_prices_of_the_label_that_no_file_has(
    admin: APIClient,
) -> None:
    labelled = ALL.replace("spec:\n  properties", "spec:\n  labels: [payments]\n  properties")
    applied(admin, labelled + PARTS)
    assert set(actions(apply(admin, labelled + PARTS, prune="payments")).values()) == {"none"}
    plan = apply(admin, labelled, prune="payments")
    assert [
        (row["kind"], row["where"]) for row in plan["changes"] if row["action"] == "delete"
    ] == [
        ("Price", "label:payments"),
        ("Objectives", "label:payments"),
    ]
    assert TransferPrice.objects.exists()
    done = apply(admin, labelled, prune="payments", digest=plan["digest"])
    assert done["applied"]
    assert not TransferPrice.objects.exists()
    assert not FlowObjectives.objects.get().spec.is_set
    assert {*actions(apply(admin, labelled, prune="payments")).values()} == {"none"}


def test_more_documents_than_one_request_takes_are_refused(admin: APIClient) -> None:
    one = "kind: Cluster\nname: c{}\nspec: {{bootstrap_servers: 'a:1'}}\n---\n"
    plan = apply(admin, "".join(one.format(number) for number in range(MAX_DOCUMENTS + 1)))
    (problem,) = plan["problems"]
    assert problem["where"] == f"all.yaml:{4 * MAX_DOCUMENTS + 1}"
    assert "Apply them in parts" in problem["sentence"]
    assert plan["changes"] == []


def test_documents_may_set_what_the_api_may_change(admin: APIClient) -> None:
    """A new field of the API belongs into `fields`, or into the name."""
    schema = admin.get("/api/v1/schema/?format=json").json()
    for kind in KINDS.values():
        (path,) = [
            path
            for path, methods in schema["paths"].items()
            if "patch" in methods and path in (_address(kind.name), _address(kind.name, "id"))
        ]
        body = schema["paths"][path]["patch"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
        found = schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]
        assert set(found) - set(kind.identity("a->b")) == set(kind.fields), kind.name


def _address(kind: str, key: str = "") -> str:
    collections = {
        "Cluster": ("clusters", "alias"),
        "Runner": ("runners", "name"),
        "Channel": ("channels", "id"),
        "Hook": ("hooks", "name"),
        "Flow": ("flows", "id"),
        "AlertRule": ("alert-rules", "id"),
        "Drill": ("drills", "id"),
    }
    if kind in ("Objectives", "Price"):
        return f"/api/v1/flows/{{flow_id}}/{kind.lower()}/"
    collection, own = collections[kind]
    return f"/api/v1/{collection}/{{{key or own}}}/"


def test_files_are_read_without_the_database() -> None:
    documents, problems = read_files([File("a.yaml", ALL), File("empty.yaml", "---\n---\n")], KINDS)
    assert problems == []
    assert [document.line for document in documents] == [1, 7, 11, 20, 24, 28]
