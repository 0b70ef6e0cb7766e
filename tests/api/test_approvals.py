"""The second person: no edit loosens the rule, and no account of the requester approves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from mirrors.domain.access.rights import Right
from mirrors.models import Cluster, Flow, Role, RuleWaiver, Runner, Transition, has_right, role_of
from mirrors.services.access.approvals import check_approver, needs_second_person
from mirrors.services.access.grants import set_sign_in_groups
from mirrors.services.errors import Conflict
from mirrors.services.users import ensure_person
from tests.api.conftest import client_of

KEY = "failover.second.person"


def approver(name: str = "olga", **facts: Any) -> User:
    user = ensure_person(username=name, password=None, role=Role.VIEWER)
    user.groups.add(Group.objects.get(name="approver"))
    User.objects.filter(pk=user.pk).update(**facts)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def ruled(flow: dict[str, Any], operator: APIClient) -> str:
    """The address of a flow that requires a second person."""
    path = f"/api/v1/flows/{flow['id']}/"
    assert operator.patch(path, {"properties": {KEY: "true"}}).status_code == 200
    return path


def test_no_flow_loosens_the_rule_of_the_installation(
    flow: dict[str, Any], operator: APIClient, settings: Settings
) -> None:
    path = f"/api/v1/flows/{flow['id']}/"
    assert operator.patch(path, {"properties": {KEY: "false"}}).status_code == 200
    row = Flow.objects.get(pk=flow["id"])
    assert not needs_second_person(row)
    settings.UNDERSTUDY_FAILOVER_SECOND_PERSON = True
    assert needs_second_person(row)


@pytest.mark.parametrize("after", [{KEY: "false"}, {}])
def test_no_edit_loosens_the_rule_of_a_flow(
    ruled: str, admin: APIClient, operator: APIClient, after: dict[str, str]
) -> None:
    for client in (operator, admin):
        refused = client.patch(ruled, {"properties": after})
        assert refused.status_code == 400, refused.json()
        assert set(refused.json()["error"]["fields"]) == {KEY}
    # Nor is it lost by removing the flow and creating it again.
    gone = operator.delete(ruled)
    assert gone.status_code == 409
    assert "requires a second person" in gone.json()["error"]["message"]
    assert needs_second_person(Flow.objects.get())


def test_an_admin_requests_to_drop_it_and_another_person_approves(
    ruled: str, admin: APIClient, operator: APIClient
) -> None:
    path = f"{ruled}waivers/"
    assert operator.post(path, {"reason": "x"}).status_code == 403
    assert admin.post(path, {"reason": " "}).status_code == 400
    made = admin.post(path, {"reason": "The flow is retired."})
    assert made.status_code == 201, made.json()
    assert admin.post(path, {"reason": "Again."}).status_code == 409
    one = f"{path}{made.json()['id']}/"
    assert operator.post(f"{one}approve/").status_code == 403
    own = admin.post(f"{one}approve/")
    assert own.status_code == 409
    assert "another person" in own.json()["error"]["message"]
    approver()
    done = client_of("olga").post(f"{one}approve/")
    assert done.status_code == 200, done.json()
    assert (done.json()["approved"], done.json()["decided_by"]) == (True, "olga")
    assert not needs_second_person(Flow.objects.get())
    assert client_of("olga").post(f"{one}approve/").status_code == 409
    words = set(Transition.objects.filter(subject="flow").values_list("to_state", flat=True))
    assert {"second person: drop asked", "second person: drop approved"} <= words


def test_a_request_that_is_rejected_or_old_changes_nothing(ruled: str, admin: APIClient) -> None:
    approver()
    path = f"{ruled}waivers/"
    one = admin.post(path, {"reason": "One."}).json()["id"]
    assert client_of("olga").post(f"{path}{one}/reject/").json()["approved"] is False
    two = admin.post(path, {"reason": "Two."}).json()["id"]
    RuleWaiver.objects.filter(pk=two).update(created_at=timezone.now() - timedelta(hours=25))
    assert client_of("olga").post(f"{path}{two}/approve/").status_code == 409
    assert needs_second_person(Flow.objects.get())


def some_flow() -> Flow:
    if known := Flow.objects.first():
        return known
    runner = Runner.objects.create(name="some", master="local[2]", slots=2)
    ends = {end: Cluster.objects.create(alias=end) for end in ("source", "target")}
    return Flow.objects.create(**ends, runner=runner)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [({"email": "Ann@Example.com"}, "e-mail"), ({"username": "ANN"}, "another person")],
)
def test_a_second_account_of_the_requester_does_not_approve(
    db: None, facts: dict[str, str], reason: str
) -> None:
    User.objects.create_user("ann", email="ann@example.com")
    user = approver(**facts)
    with pytest.raises(Conflict, match=reason):
        check_approver(flow=some_flow(), requested_by="ann", who=user.username)


def test_nor_does_an_account_that_the_requester_created_changed_or_renamed(
    admin: APIClient,
) -> None:
    person = Client()
    person.force_login(User.objects.get(username="admin"))
    form = {"username": "second", "role": "admin", "password": "correct-horse-battery-7"}
    assert person.post("/people/", form).status_code == 302
    with pytest.raises(Conflict, match="admin created it or changed it"):
        check_approver(flow=some_flow(), requested_by="admin", who="second")
    check_approver(flow=some_flow(), requested_by="ann", who="second")
    renamed = approver("before")
    renamed.username = "after"
    renamed.save()
    with pytest.raises(Conflict, match="its name was before"):
        check_approver(flow=some_flow(), requested_by="before", who="after")


def test_approvers_approve_and_operators_do_not(db: None) -> None:
    user = approver()
    assert (role_of(user), has_right(user, Right.APPROVE)) == (Role.VIEWER, True)
    ensure_person(username="otto", password=None, role=Role.OPERATOR)
    with pytest.raises(Conflict, match="neither the role approver nor admin"):
        check_approver(flow=some_flow(), requested_by="ann", who="otto")
    with pytest.raises(Conflict, match="neither"):
        check_approver(flow=some_flow(), requested_by="ann", who="nobody-at-all")
    User.objects.filter(username="olga").update(is_active=False)
    with pytest.raises(Conflict, match="neither"):
        check_approver(flow=some_flow(), requested_by="ann", who="olga")


def test_the_page_of_approvals_requests_and_decides(ruled: str, admin: APIClient) -> None:
    approver()
    clients = {}
    for name in ("admin", "olga", "operator"):
        clients[name] = Client()
        clients[name].force_login(User.objects.get(username=name))
    flow = Flow.objects.get()
    asked = {"flow": flow.pk, "reason": "The flow is retired."}
    assert clients["operator"].post("/approvals/request/", asked).status_code == 403
    assert clients["admin"].post("/approvals/request/", asked).status_code == 302
    row = RuleWaiver.objects.get()
    for name, shown in (("olga", True), ("operator", False)):
        page = clients[name].get("/approvals/").content.decode()
        assert "The flow is retired." in page
        assert ("Reject</button>" in page) is shown
    assert clients["operator"].post(f"/approvals/{row.pk}/approve/").status_code == 403
    assert clients["olga"].post(f"/approvals/{row.pk}/approve/").status_code == 302
    assert not needs_second_person(Flow.objects.get())


def test_nor_one_that_created_the_account_of_the_requester(admin: APIClient) -> None:
    """Until the person chooses a password, the creator can sign in with that account."""
    person = Client()
    person.force_login(User.objects.get(username="admin"))
    form = {"username": "otto", "role": "operator", "password": "correct-horse-battery-7"}
    assert person.post("/people/", form).status_code == 302
    with pytest.raises(Conflict, match="it set the password of otto"):
        check_approver(flow=some_flow(), requested_by="otto", who="admin")
    otto = Client()
    otto.force_login(User.objects.get(username="otto"))
    new = "staple-orbit-lantern-9"
    form = {"old_password": "correct-horse-battery-7", "new_password1": new, "new_password2": new}
    assert otto.post(reverse("password_change"), form).status_code == 302
    check_approver(flow=some_flow(), requested_by="otto", who="admin")


def test_nor_one_that_got_the_right_through_a_group_or_before_the_requester_was_renamed(
    admin: APIClient,
) -> None:
    second = ensure_person(username="second", password=None, role=Role.NONE)
    set_sign_in_groups(user=second, groups=["deciders"])
    body = {"group": "deciders", "role": "approver", "scope": "everything"}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    third = ensure_person(username="third", password=None, role=Role.NONE)
    body = {"username": "third", "role": "approver", "scope": "everything"}
    assert admin.post("/api/v1/grants/", body).status_code == 201
    renamed = User.objects.get(username="admin")
    renamed.username = "boss"
    renamed.save()
    for name, reason in ((second.username, "to a group"), (third.username, "changed it")):
        with pytest.raises(Conflict, match=reason):
            check_approver(flow=some_flow(), requested_by="boss", who=name)
        check_approver(flow=some_flow(), requested_by="ann", who=name)
