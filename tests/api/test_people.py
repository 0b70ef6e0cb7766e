"""People and tokens: every right can be taken, and a token does no more than its scope."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from knox.models import AuthToken
from rest_framework.test import APIClient

from mirrors.models import Role, Transition, role_of
from mirrors.services.users import create_token, ensure_person
from tests.api.conftest import client_of

PATH = "/api/v1/people/"
PASSWORD = "correct-horse-battery-9"


@pytest.fixture
def ann(db: None) -> User:
    return ensure_person(username="ann", password=PASSWORD, role=Role.OPERATOR)


def with_scope(scope: str, username: str = "ann") -> APIClient:
    client = APIClient(raise_request_exception=False)
    token = create_token(username=username, scope=scope, name="a script")
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


def browser(name: str = "ann", password: str = PASSWORD) -> Client:
    client = Client()
    answer = client.post("/login/", {"username": name, "password": password})
    assert answer.status_code == 302
    return client


def test_people_are_created_listed_and_changed_by_admins_only(
    admin: APIClient, operator: APIClient
) -> None:
    body = {"username": "olga", "password": PASSWORD, "role": "viewer"}
    assert operator.post(PATH, body).status_code == 403
    made = admin.post(PATH, body)
    assert made.status_code == 201, made.json()
    assert PASSWORD not in made.content.decode()
    assert admin.post(PATH, body).status_code == 400
    for wrong in ({"username": "worker"}, {"password": "olga2"}, {"username": "a b"}):
        assert admin.post(PATH, {**body, "username": "o2", **wrong}).status_code == 400, wrong
    one = f"{PATH}{made.json()['id']}/"
    changed = admin.patch(one, {"role": "operator", "extras": ["approver", "auditor"]}).json()
    assert (changed["role"], changed["extras"]) == ("operator", ["approver", "auditor"])
    assert admin.patch(one, {"extras": ["auditor"]}).json()["role"] == "operator"
    none = admin.patch(one, {"role": "none", "extras": []}).json()
    assert (none["role"], none["extras"]) == ("none", [])
    assert role_of(User.objects.get(username="olga")) is Role.NONE
    assert admin.get(f"{PATH}?search=olg").json()["count"] == 1


def test_a_deactivated_account_loses_sessions_and_tokens_at_once(
    admin: APIClient, ann: User
) -> None:
    page, rest = browser(), client_of("ann")
    assert page.get("/flows/").status_code == 200
    done = admin.patch(f"{PATH}{ann.pk}/", {"active": False})
    assert (done.json()["active"], done.json()["tokens"]) == (False, 0)
    assert page.get("/flows/").status_code == 302
    assert rest.get("/api/v1/flows/").status_code == 401
    login = Client().post("/login/", {"username": "ann", "password": PASSWORD})
    assert login.status_code == 200, "the form again"
    admin.patch(f"{PATH}{ann.pk}/", {"active": True})
    assert page.get("/flows/").status_code == 302, "the old session does not come back"
    assert rest.get("/api/v1/flows/").status_code == 401
    browser()


def test_a_role_that_is_taken_is_gone_at_the_next_request(admin: APIClient, ann: User) -> None:
    rest = client_of("ann")
    assert rest.get("/api/v1/flows/").status_code == 200
    admin.patch(f"{PATH}{ann.pk}/", {"role": "none"})
    assert rest.get("/api/v1/flows/").status_code == 403


def test_access_is_ended_without_deactivation(admin: APIClient, ann: User) -> None:
    page, rest, other = browser(), client_of("ann"), client_of("admin")
    assert admin.post(f"{PATH}{ann.pk}/end-access/").status_code == 200
    assert page.get("/flows/").status_code == 302
    assert rest.get("/api/v1/flows/").status_code == 401
    assert other.get("/api/v1/flows/").status_code == 200
    assert Transition.objects.filter(to_state="access ended", why__contains="1 tokens").exists()


def test_a_new_password_ends_sessions_and_tokens(ann: User) -> None:
    page, second, rest = browser(), browser(), client_of("ann")
    new = "another-horse-battery-8"
    facts = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert page.post("/account/password/", facts).status_code == 302
    assert second.get("/flows/").status_code == 302
    assert rest.get("/api/v1/flows/").status_code == 401


def test_a_locked_account_is_unlocked(admin: APIClient, ann: User) -> None:
    client = Client()
    for _ in range(9):
        client.post("/login/", {"username": "ann", "password": "no"})
    assert client.post("/login/", {"username": "ann", "password": PASSWORD}).status_code == 429
    assert admin.get(f"{PATH}{ann.pk}/").json()["locked"] is True
    assert admin.post(f"{PATH}{ann.pk}/unlock/").json()["locked"] is False
    browser()


def test_nobody_changes_their_own_account_and_the_last_admin_stays(admin: APIClient) -> None:
    me = User.objects.get(username="admin")
    for body in ({"role": "viewer"}, {"active": False}):
        assert admin.patch(f"{PATH}{me.pk}/", body).status_code == 409
    second = ensure_person(username="second", password=None, role=Role.ADMIN)
    assert admin.patch(f"{PATH}{second.pk}/", {"role": "viewer"}).status_code == 200
    User.objects.filter(pk=second.pk).update(is_superuser=True)
    User.objects.filter(pk=me.pk).update(is_active=False)
    root = APIClient()
    root.force_authenticate(User.objects.create_superuser("root-of-all"))
    User.objects.filter(pk=second.pk).update(is_superuser=False)
    assert root.patch(f"{PATH}{second.pk}/", {"role": "operator"}).status_code == 200


def test_an_admin_revokes_the_token_of_another(admin: APIClient, ann: User) -> None:
    rest = with_scope("read")
    assert rest.get("/api/v1/flows/").status_code == 200
    path = f"{PATH}{ann.pk}/tokens/"
    (token,) = admin.get(path).json()["results"]
    assert (token["name"], token["scope"]) == ("a script", "read")
    assert token["last_used_at"]
    assert rest.get(path).status_code == 403
    assert admin.delete(f"{PATH}999999/tokens/{token['key']}/").status_code == 404
    assert admin.delete(f"{path}{token['key']}/").status_code == 204
    assert rest.get("/api/v1/flows/").status_code == 401


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("metrics", {"metrics": 200, "read": 403, "operate": 403, "administer": 403}),
        ("read", {"metrics": 200, "read": 200, "operate": 403, "administer": 403}),
        ("operate", {"metrics": 200, "read": 200, "operate": 202, "administer": 403}),
        ("everything", {"metrics": 200, "read": 200, "operate": 202, "administer": 200}),
    ],
)
def test_a_token_does_no_more_than_its_scope(
    two_clusters: Any, admin: APIClient, scope: str, expected: dict[str, int]
) -> None:
    client = with_scope(scope, username="admin")
    found = {
        "metrics": client.get("/metrics").status_code,
        "read": client.get("/api/v1/flows/").status_code,
        "operate": client.post("/api/v1/clusters/primary/test/").status_code,
        "administer": client.get(PATH).status_code,
    }
    assert found == expected


def test_no_scope_gives_more_than_the_role(ann: User) -> None:
    ensure_person(username="ann", password=None, role=Role.VIEWER)
    assert with_scope("everything").post("/api/v1/clusters/", {}).status_code == 403


def test_a_token_of_an_earlier_version_keeps_working(ann: User) -> None:
    token = create_token(username="ann")
    AuthToken.objects.get().facts.delete()  # type: ignore[attr-defined]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    assert client.get("/api/v1/flows/").status_code == 200
    (row,) = client.get("/api/v1/tokens/").json()["results"]
    assert row["scope"] == "everything"


def test_the_pages_do_all_of_it(people: dict[Role, User], ann: User) -> None:
    client = Client()
    client.force_login(people[Role.ADMIN])
    create_token(username="ann", scope="metrics", name="Prometheus")
    page = f"/people/{ann.pk}/"
    text = client.get(page).content.decode()
    assert "Prometheus" in text
    client.post(f"{page}role/", {"role": "viewer", "extras": ["approver"]})
    assert sorted(ann.groups.values_list("name", flat=True)) == ["approver", "viewer"]
    client.post(f"{page}tokens/{AuthToken.objects.get().pk}/revoke/")
    assert not AuthToken.objects.exists()
    for change, active in (("deactivate", False), ("activate", True), ("unlock", True)):
        assert client.post(f"{page}{change}/").status_code == 302
        ann.refresh_from_db()
        assert ann.is_active is active
    browser()
    answer = client.post(f"{page}end/", follow=True).content.decode()
    assert "1 sessions and 0 tokens ended" in answer
    viewer = Client()
    viewer.force_login(people[Role.OPERATOR])
    assert viewer.get(page).status_code == 403
    assert viewer.post(f"{page}deactivate/").status_code == 403
