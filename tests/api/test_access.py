"""No page and no endpoint without a role: all addresses come from the URL configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from mirrors.models import Role
from mirrors.services.users import ensure_person
from tests.api.conftest import client_of

# Open to everybody, and why.
OPEN = {
    "accounts/login/": "one must be able to log in",
    "login/": "one must be able to log in",
    "healthz": "probes have no account",
    "readyz": "probes have no account",
    "api/v1/tokens/": "POST takes name and password",
    "api/": "answers 404 to all that is nothing",
    "oidc/login/": "one must be able to log in",
    "oidc/callback/": "the provider sends the person here",
    "oidc/backchannel-logout/": "the provider ends sessions, with a token that it signed",
    "verify/": "the holder of a certificate may verify it",
    "verify/c0ffee/": "the holder of a certificate may verify it",
}
# A person's own account, with any role.
OWN = {"logout/", "account/password/", "account/password/done/", "account/tokens/"}
OWN |= {
    "account/one-time-codes/",
    "account/time-zone/",
    "account/tokens/1/revoke/",
    "api/v1/tokens/abc/",
}
# POST, since it needs a body, but it changes nothing.
ASKED = {"api/v1/offsets/translate/", "api/v1/exports/", "api/v1/certificates/verify/"}
VALUES = {
    "alias": "primary",
    "name": "default",
    "pk": "1",
    "gap": "1",
    "finding": "1",
    "job": "1",
    "flow_id": "1",
    "run_id": "1",
    "comparison_id": "1",
    "report_id": "1",
    "failback_id": "1",
    "stretch": "1",
    "verb": "pause",
    "execution": "switchover",
    "change": "1",
    "topic": "orders",
    "decision": "approve",
    "kind": "stale",
    "token_key": "abc",
    "key": "abc",
    "user_id": "1",
    "number": "c0ffee",
    "form": "json",
    "part": "topics",
    # By its converter: a comparison has other tabs than a flow.
    "compared": "findings",
    "action": "start",
    "chart": "lag",
}
# The content of records and the runner's log need the role operator.
CONTENT = {
    # Accounts and grants are for admins.
    "api/v1/grants/",
    "api/v1/grants/1/",
    "api/v1/people/",
    "api/v1/people/1/",
    "api/v1/people/1/end-access/",
    "api/v1/people/1/tokens/",
    "api/v1/people/1/unlock/",
    "api/v1/people/1/tokens/abc/",
    "api/v1/failbacks/1/orphans/1/records/",
    "api/v1/flows/1/log/",
    "api/v1/flows/1/rules/preview/",
    "api/v1/flows/1/rules/preview/1/",
    "api/v1/runners/default/log/",
}
REST = ("get", "post", "patch", "delete")


def addresses(resolver: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every address with example values filled in, and its view."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            if not route.startswith("admin/"):
                yield from addresses(entry, route)
        elif isinstance(entry, URLPattern):
            yield example(route), entry.callback


def example(route: str) -> str:
    route = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", lambda m: VALUES[m[1]], route)
    route = re.sub(r"<(?:(\w+):)?(\w+)>", lambda m: VALUES.get(m[1]) or VALUES[m[2]], route)
    return re.sub(r"\\Z|[$^?\\]", "", route).replace("//", "/")


@pytest.fixture
def ground(flow: Any) -> None:
    """Something at every address that takes a key."""


def closed() -> list[str]:
    return sorted({path for path, _ in addresses()} - set(OPEN))


def handled(view: Any) -> list[str]:
    """The methods with a handler: others change nothing for anybody. Pages take what forms send."""
    if not hasattr(view, "cls"):
        return ["get", "post"]
    actions = getattr(view, "actions", None)
    return [one for one in REST if (one in actions if actions else hasattr(view.cls, one))]


def requests() -> list[tuple[str, str]]:
    """Each method with a handler of each closed address."""
    opened = set(OPEN)
    return sorted(
        {(path, one) for path, view in addresses() if path not in opened for one in handled(view)}
    )


def is_rest(path: str) -> bool:
    return path == "metrics" or (path.startswith("api/") and path != "api/v1/docs/")


def test_the_walk_finds_the_addresses_it_should() -> None:
    found = set(closed())
    assert {"api/v1/flows/1/start/", "api/v1/clusters/primary/test/", "api/v1/runners/"} <= found
    assert {"api/v1/flows/1/partitions/", "api/v1/schema/", "api/v1/docs/"} <= found


def test_a_person_who_is_not_signed_in_sees_nothing(ground: None) -> None:
    client = Client()
    for path, method in requests():
        answer = getattr(client, method)(f"/{path}")
        if is_rest(path):
            allowed = answer.status_code == 405
            assert allowed or answer.status_code == 401, f"{method} {path}"
            assert set(answer.json()) == {"error"}, f"{method} {path}"
        else:
            assert answer.status_code in {302, 405}, f"{method} {path}"
            assert answer.status_code == 405 or "login" in answer["Location"], path


def test_a_person_without_a_role_sees_nothing(ground: None) -> None:
    User.objects.create_user("nobody-yet", password=None)
    rest = client_of("nobody-yet")
    pages = Client()
    pages.force_login(User.objects.get(username="nobody-yet"))
    for path in sorted(set(closed()) - OWN):
        client = rest if is_rest(path) else pages
        assert client.get(f"/{path}").status_code in {403, 405}, path


def test_a_viewer_changes_nothing(ground: None, people: dict[Role, User]) -> None:
    """Known without a token, which `test_a_viewer_reads_everything` sends to every address."""
    viewer, person = APIClient(raise_request_exception=False), Client()
    viewer.force_authenticate(people[Role.VIEWER])
    person.force_login(people[Role.VIEWER])
    for path, method in requests():
        if method != "get" and path not in OWN | ASKED:
            client = viewer if is_rest(path) else person
            answer = getattr(client, method)(f"/{path}")
            assert answer.status_code in {403, 405}, f"{method} {path}: {answer.status_code}"


def test_a_viewer_reads_everything(ground: None, viewer: APIClient) -> None:
    for path in closed():
        if is_rest(path):
            answer = viewer.get(f"/{path}")
            expected = {403} if path in CONTENT else {200, 400, 404, 405}
            assert answer.status_code in expected, f"{path}: {answer.status_code}"


def test_an_operator_runs_flows_and_tests_but_registers_no_cluster(
    ground: None, operator: APIClient
) -> None:
    assert operator.post("/api/v1/clusters/primary/test/").status_code == 202
    assert operator.post("/api/v1/flows/1/start/").status_code in {200, 404}
    body = {"alias": "third", "bootstrap_servers": "x:9092"}
    assert operator.post("/api/v1/clusters/", body).status_code == 403
    assert operator.patch("/api/v1/clusters/primary/", {}).status_code == 403
    assert operator.delete("/api/v1/clusters/primary/").status_code == 403
    assert operator.post("/api/v1/runners/", {}).status_code == 403


def test_the_admin_site_is_for_superusers_whom_it_refuses_nothing(
    people: dict[Role, User],
) -> None:
    for user in people.values():
        client = Client()
        client.force_login(user)
        assert client.get("/admin/").status_code == 302
    root = User.objects.create_superuser("root-of-all")
    client = Client()
    client.force_login(root)
    for path in ("/admin/", "/admin/auth/user/", "/admin/auth/group/", "/admin/knox/authtoken/"):
        assert client.get(path).status_code == 200, path


def test_a_token_comes_for_name_and_password_and_can_be_given_back(db: None) -> None:
    ensure_person(username="robot", password="a-long-enough-1", role=Role.VIEWER)
    client = APIClient()
    wrong = client.post("/api/v1/tokens/", {"username": "robot", "password": "no"})
    assert wrong.status_code == 401
    right = client.post("/api/v1/tokens/", {"username": "robot", "password": "a-long-enough-1"})
    assert right.status_code == 201
    token = right.json()["token"]
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    [listed] = client.get("/api/v1/tokens/").json()["results"]
    assert token not in str(listed)
    assert client.delete(f"/api/v1/tokens/{listed['key']}/").status_code == 204
    assert client.get("/api/v1/tokens/").status_code == 401


def test_a_password_cannot_be_guessed_for_long(db: None) -> None:
    ensure_person(username="robot", password="a-long-enough-1", role=Role.VIEWER)
    client = APIClient()
    for _ in range(8):
        client.post("/api/v1/tokens/", {"username": "robot", "password": "guess"})
    right = client.post("/api/v1/tokens/", {"username": "robot", "password": "a-long-enough-1"})
    assert right.status_code in {401, 403, 429}


def test_a_session_needs_the_csrf_token(people: dict[Role, User], flow: dict[str, Any]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people[Role.OPERATOR])
    answer = client.post(f"/api/v1/flows/{flow['id']}/start/")
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "permission_denied"
