"""Grants and labels: given, taken and audited over REST and on pages; groups of the sign-in."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from controlplane.single_sign_on import roles
from mirrors.domain.schemas.registry import PASSWORD, TOKEN, URL, USERNAME
from mirrors.models import AccessGrant, Flow, FlowLabel, Role, SignInGroup, Transition
from mirrors.services.access.approvals import check_approver
from mirrors.services.errors import Conflict
from mirrors.services.users import create_token, ensure_person
from tests.api.conftest import client_of


@pytest.fixture
def ann(db: None) -> User:
    return ensure_person(username="ann", password=None, role=Role.NONE)


def names_of(client: APIClient) -> list[str]:
    answer = client.get("/api/v1/flows/")
    return [row["name"] for row in answer.json().get("results", [])]


def test_a_grant_on_a_label_shows_its_flows_until_it_is_taken(
    admin: APIClient, flow: dict[str, Any], ann: User
) -> None:
    assert client_of("ann").get("/api/v1/flows/").status_code == 403
    labels = admin.post(f"/api/v1/flows/{flow['id']}/labels/", {"labels": ["team-a", "team-a"]})
    assert labels.json() == {"labels": ["team-a"]}
    body = {"username": "ann", "role": "operator", "scope": "label", "label": "team-a"}
    made = admin.post("/api/v1/grants/", body)
    assert made.status_code == 201, made.json()
    assert made.json()["username"] == "ann"
    person = client_of("ann")
    assert names_of(person) == ["primary->backup"]
    assert person.post(f"/api/v1/flows/{flow['id']}/start/").status_code == 200
    refused = person.patch(f"/api/v1/flows/{flow['id']}/", {"properties": {}})
    assert refused.status_code == 403
    words = refused.json()["error"]["message"]
    assert words.startswith("This needs the role editor on primary->backup; you have none, and")
    assert admin.delete(f"/api/v1/grants/{made.json()['id']}/").status_code == 204
    assert person.get("/api/v1/flows/").status_code == 403


def test_a_person_who_never_had_it_does_not_find_a_flow_by_number_name_or_token(
    admin: APIClient, flow: dict[str, Any], ann: User
) -> None:
    other = {"alias": "third", "bootstrap_servers": "127.0.0.1:9"}
    assert admin.post("/api/v1/clusters/", other).status_code == 201
    body = {"source": "primary", "target": "third", "desired_state": "stopped"}
    mine = admin.post("/api/v1/flows/", body).json()["id"]
    body = {"username": "ann", "role": "admin", "scope": "flow", "flow": mine}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    person = client_of("ann")
    assert names_of(person) == ["primary->third"]
    for path in (f"flows/{flow['id']}/", "flows/primary->backup/", "clusters/backup/"):
        assert person.get(f"/api/v1/{path}").status_code == 404, path
        assert person.delete(f"/api/v1/{path}").status_code == 404, path
    assert person.get("/api/v1/clusters/third/").status_code == 200
    assert person.delete("/api/v1/clusters/third/").status_code == 403
    # The scope of a token limits its owner's grants too.
    reading = APIClient()
    token = create_token(username="ann", scope="read")
    reading.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    assert names_of(reading) == ["primary->third"]
    assert reading.post(f"/api/v1/flows/{mine}/start/").status_code == 403
    scraping = APIClient()
    token = create_token(username="ann", scope="metrics")
    scraping.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    assert scraping.get("/api/v1/flows/").status_code == 403
    text = scraping.get("/metrics").content.decode()
    assert "third" in text
    assert "backup" not in text


def test_every_change_is_in_the_audit_log(
    admin: APIClient, flow: dict[str, Any], ann: User
) -> None:
    body = {"username": "ann", "role": "viewer", "scope": "flow", "flow": flow["id"]}
    made = admin.post("/api/v1/grants/", body).json()["id"]
    admin.delete(f"/api/v1/grants/{made}/")
    group = {"group": "dba", "role": "viewer", "scope": "everything"}
    admin.post("/api/v1/grants/", group)
    admin.post(f"/api/v1/flows/{flow['id']}/labels/", {"labels": ["x"]})
    rows = Transition.objects.filter(who="admin").order_by("pk")
    found = [(row.name, row.to_state, row.why) for row in rows if row.to_state != "created"]
    assert found[-4:] == [
        ("ann", "grant given", "viewer on flow primary->backup"),
        ("ann", "grant removed", "viewer on flow primary->backup"),
        ("group dba", "grant given", "viewer on everything"),
        ("primary->backup", "labels", "Labels: x."),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "viewer", "scope": "everything"}, "group"),
        ({"group": "g", "username": "ann", "role": "viewer", "scope": "everything"}, "group"),
        ({"group": "g", "role": "owner", "scope": "everything"}, "role"),
        ({"group": "g", "role": "viewer", "scope": "world"}, "scope"),
        ({"group": "g", "role": "viewer", "scope": "flow"}, "flow"),
        ({"group": "g", "role": "viewer", "scope": "cluster", "cluster": "nope"}, "cluster"),
        ({"group": "g", "role": "viewer", "scope": "label", "label": "a b"}, "label"),
        ({"group": "g", "role": "viewer", "scope": "everything", "label": "a"}, "label"),
    ],
)
def test_a_grant_that_says_nothing_clear_is_refused_at_its_field(
    admin: APIClient, ann: User, body: dict[str, Any], field: str
) -> None:
    answer = admin.post("/api/v1/grants/", body)
    assert answer.status_code == 400
    assert list(answer.json()["error"]["fields"]) == [field]
    assert not AccessGrant.objects.exists()


def test_nobody_gives_themselves_a_grant_or_one_twice(admin: APIClient, ann: User) -> None:
    own = {"username": "admin", "role": "approver", "scope": "everything"}
    assert admin.post("/api/v1/grants/", own).status_code == 409
    body = {"username": "ann", "role": "approver", "scope": "everything"}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    assert admin.post("/api/v1/grants/", body).status_code == 409


def test_who_gave_a_grant_is_not_approved_by_its_account(
    admin: APIClient, flow: dict[str, Any], ann: User
) -> None:
    row = Flow.objects.get(pk=flow["id"])
    body = {"username": "ann", "role": "approver", "scope": "flow", "flow": flow["id"]}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    check_approver(flow=row, requested_by="otto", who="ann")
    with pytest.raises(Conflict, match="admin created it or changed it"):
        check_approver(flow=row, requested_by="admin", who="ann")
    other = Flow(source=row.target, target=row.source, pk=99)
    with pytest.raises(Conflict, match="neither the role approver"):
        check_approver(flow=other, requested_by="otto", who="ann")


def test_the_page_gives_and_takes_and_the_flow_has_its_labels(
    admin: APIClient, flow: dict[str, Any], ann: User
) -> None:
    browser = Client()
    browser.force_login(User.objects.get(username="admin"))
    labels = browser.post(f"/flows/{flow['id']}/labels/", {"labels": "team-a, tier.1"})
    assert labels.status_code == 302
    assert sorted(FlowLabel.objects.values_list("name", flat=True)) == ["team-a", "tier.1"]
    assert "team-a, tier.1" in browser.get(f"/flows/{flow['id']}/configuration/").content.decode()
    form = {"user": ann.pk, "role": "operator", "scope": "label", "label": "team-a"}
    assert browser.post("/people/grants/", {**form, "label": ""}).status_code == 422
    assert browser.post("/people/grants/", form).status_code == 302
    assert "operator on label team-a" in browser.get(f"/people/{ann.pk}/").content.decode()
    (row,) = AccessGrant.objects.all()
    assert "ann" in browser.get("/people/grants/?as=csv").getvalue().decode()
    assert browser.post(f"/people/grants/{row.pk}/take/").status_code == 302
    assert not AccessGrant.objects.exists()


def test_the_flow_of_the_other_direction_takes_the_labels(
    operator: APIClient, admin: APIClient, flow: dict[str, Any]
) -> None:
    admin.post(f"/api/v1/flows/{flow['id']}/labels/", {"labels": ["team-a"]})
    other = operator.post(f"/api/v1/flows/{flow['id']}/reverse/").json()["id"]
    assert other != flow["id"]
    assert [one.name for one in Flow.objects.get(pk=other).labels.all()] == ["team-a"]


def test_a_group_of_the_sign_in_has_grants_of_its_own(flow: dict[str, Any]) -> None:
    nothing = roles.granted(["payments"])
    assert nothing.is_nothing
    facts = {"group": "payments", "role": "operator", "scope": "flow"}
    AccessGrant.objects.create(flow_id=flow["id"], created_by="admin", **facts)
    found = roles.granted(["payments", "staff"])
    assert not found.is_nothing
    bob = ensure_person(username="bob", password=None, role=Role.NONE)
    roles.apply(bob, found)
    assert names_of(client_of("bob")) == ["primary->backup"]
    roles.apply(bob, roles.granted(["staff"]))
    assert [row.name for row in SignInGroup.objects.all()] == ["staff"]
    assert client_of("bob").get("/api/v1/flows/").status_code == 403


def test_labels_are_a_field_of_a_flow_and_filter_the_list(
    admin: APIClient, flow: dict[str, Any]
) -> None:
    path = f"/api/v1/flows/{flow['id']}/"
    changed = admin.patch(path, {"labels": ["tier.1", "team-a", "team-a"]}, format="json")
    assert changed.json()["labels"] == ["team-a", "tier.1"]
    assert admin.get(path).json()["labels"] == ["team-a", "tier.1"]
    for label, names in (("team-a", ["primary->backup"]), ("team", []), ("", [])):
        found = admin.get("/api/v1/flows/", {"label": label}).json()["results"]
        assert [row["name"] for row in found] == names
    preview = admin.post(f"{path}preview/", {"labels": []}, format="json").json()
    change = {"key": "labels", "before": "team-a, tier.1", "after": ""}
    assert preview["changes"] == [change]
    assert preview["restarts"] == []
    refused = admin.patch(path, {"labels": ["a b"]}, format="json")
    assert refused.status_code == 400
    assert list(refused.json()["error"]["fields"]) == ["labels"]
    assert admin.get(path).json()["labels"] == ["team-a", "tier.1"]


def test_nobody_gives_a_right_by_a_label_without_being_an_admin_of_the_flow(
    admin: APIClient, operator: APIClient, flow: dict[str, Any], ann: User
) -> None:
    """An operator of everything may edit; a label would give others rights, so only admins."""
    path = f"/api/v1/flows/{flow['id']}/"
    for body in ({"labels": ["team-a"]}, {"labels": ["team-a"], "properties": {"topics": "x"}}):
        for address in (path, f"{path}preview/"):
            send = operator.post if address != path else operator.patch
            answer = send(address, body, format="json")
            assert answer.status_code == 403, answer.json()
            assert "role admin on primary->backup" in answer.json()["error"]["message"]
    assert admin.get(path).json()["properties"].get("topics") != "x"
    file = "kind: Flow\nname: primary->backup\nspec: {labels: [team-a]}\n"
    body = {"files": [{"name": "a.yaml", "text": file}]}
    (problem,) = operator.post("/api/v1/apply/", body, format="json").json()["problems"]
    assert "role admin on primary->backup" in problem["sentence"]
    # Labels that stay as they are may be sent along.
    admin.patch(path, {"labels": ["team-a"]}, format="json")
    same = {"labels": ["team-a"], "properties": {"topics": "y"}}
    assert operator.patch(path, same, format="json").status_code == 200
    assert operator.patch(path, {"labels": []}, format="json").status_code == 403
    third = {"alias": "third", "bootstrap_servers": "127.0.0.1:9"}
    assert admin.post("/api/v1/clusters/", third).status_code == 201
    new = {"source": "primary", "target": "third", "desired_state": "stopped"}
    for labels in (["team-b"], []):
        made = operator.post("/api/v1/flows/", {**new, "labels": labels}, format="json")
        assert made.status_code == 403
    assert not Flow.objects.filter(target__alias="third").exists()
    # The admin of one flow labels that one, and no other.
    body = {"username": "ann", "role": "admin", "scope": "label", "label": "team-a"}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    person = client_of("ann")
    assert person.patch(path, {"labels": ["team-a", "x"]}, format="json").status_code == 200
    other = admin.post("/api/v1/flows/", {**new, "labels": ["team-b"]}, format="json").json()
    assert other["labels"] == ["team-b"]
    path = f"/api/v1/flows/{other['id']}/"
    assert person.patch(path, {"labels": ["team-a"]}, format="json").status_code == 404
    body = {"username": "ann", "role": "editor", "scope": "flow", "flow": other["id"]}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    assert person.patch(path, {"labels": ["team-a"]}, format="json").status_code == 403
    # The last label that gave a person its right is gone with the right.
    path = f"/api/v1/flows/{flow['id']}/"
    assert admin.patch(path, {"labels": []}, format="json").status_code == 200
    assert person.get(path).status_code == 404


def cluster_admin(admin: APIClient, alias: str) -> APIClient:
    ensure_person(username="cid", password=None, role=Role.NONE)
    body = {"username": "cid", "role": "admin", "scope": "cluster", "cluster": alias}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    return client_of("cid")


LOGIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "understudy",
}


@pytest.mark.parametrize(
    "change",
    [
        {"sasl_password": "env:KAFKA_BACKUP"},
        {"ssl_ca": "file:/run/secrets/backup.pem"},
        {"properties": {URL: "https://mine.example", USERNAME: "u", PASSWORD: "env:KAFKA_BACKUP"}},
        {"properties": {URL: "https://mine.example", TOKEN: "file:/run/secrets/backup"}},
        {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_username": "",
            "sasl_password": "",
            "bootstrap_servers": "b-1.mine.kafka.eu-west-1.amazonaws.com:9098",
            "properties": {"aws.msk.region": "eu-west-1"},
        },
    ],
)
def test_an_admin_of_one_cluster_names_no_secret_of_another(
    admin: APIClient, two_clusters: tuple[str, str], change: dict[str, Any]
) -> None:
    """The person also chooses the address that gets it."""
    mine = {**LOGIN, "sasl_password": "env:KAFKA_PRIMARY"}
    assert admin.patch("/api/v1/clusters/primary/", mine).status_code == 200
    person = cluster_admin(admin, "primary")
    body = {"bootstrap_servers": "mine.example:9093"}
    assert person.patch("/api/v1/clusters/primary/", body).status_code == 200
    refused = person.patch("/api/v1/clusters/primary/", change)
    assert refused.status_code == 403, refused.json()
    assert "needs the role admin on everything" in refused.json()["error"]["message"]
    assert admin.patch("/api/v1/clusters/primary/", change).status_code == 200


def test_nor_sends_a_shared_secret_to_another_address(
    admin: APIClient, two_clusters: tuple[str, str]
) -> None:
    shared = {**LOGIN, "sasl_password": "env:KAFKA_BOTH"}
    for alias in two_clusters:
        assert admin.patch(f"/api/v1/clusters/{alias}/", shared).status_code == 200
    person = cluster_admin(admin, "primary")
    for change in (
        {"bootstrap_servers": "mine.example:9093"},
        {"properties": {URL: "https://mine.example", TOKEN: "env:KAFKA_BOTH"}},
    ):
        refused = person.patch("/api/v1/clusters/primary/", change)
        assert refused.status_code == 403, refused.json()
        assert "another cluster uses the secret" in refused.json()["error"]["message"]
    # Nor in two steps.
    known = {"properties": {URL: "https://mine.example"}}
    assert person.patch("/api/v1/clusters/primary/", known).status_code == 200
    body = {"properties": {URL: "https://mine.example", TOKEN: "env:KAFKA_BOTH"}}
    assert person.patch("/api/v1/clusters/primary/", body).status_code == 403
    faster = {"properties": {"request.timeout.ms": "5000"}}
    assert person.patch("/api/v1/clusters/primary/", faster).status_code == 200
