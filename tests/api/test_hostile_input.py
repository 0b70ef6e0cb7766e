"""No hostile value causes a 500 or a traceback: every address, every method."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from mirrors.models import Role
from tests.api.hostile import BODIES, FIELDS, HOSTILE, QUERIES
from tests.api.test_access import addresses, is_rest

# The verbs with which an address takes a body: they are the same in every test.
_verbs: dict[str, list[str]] = {}
# Each address is sent a third of it, by turns; `make test-soak` sends all of it to each.
shared_out = pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.soak)])


@pytest.fixture
def admin(people: dict[Role, User]) -> APIClient:
    """Known without a token: to look one up is a third of a request, and asked elsewhere."""
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(people[Role.ADMIN])
    return client


@pytest.fixture
def rest(flow: Any) -> list[str]:
    return sorted({path for path, _ in addresses() if is_rest(path)})


def check(answer: Any, what: str) -> None:
    assert answer.status_code < 500, f"{what}: {answer.status_code}"
    if answer.status_code >= 400:
        body = answer.json()
        assert set(body) == {"error"}, what
        error = body["error"]
        assert set(error) == {"code", "message", "fields", "reference"}, what
        assert error["code"], what
        assert error["message"], what
        assert error["reference"], what
        assert "Traceback" not in str(body), what


def taken(admin: APIClient, path: str) -> list[str]:
    if path not in _verbs:
        answers = {verb: send(admin, verb, path, b"") for verb in ("post", "patch")}
        _verbs[path] = [verb for verb, answer in answers.items() if answer.status_code != 405]
    return _verbs[path]


def send(client: APIClient, verb: str, path: str, body: str | bytes) -> Any:
    return getattr(client, verb)(f"/{path}", data=body, content_type="application/json")


@shared_out
def test_bodies_that_are_no_json(admin: APIClient, rest: list[str], share: int) -> None:
    for at, path in enumerate(rest):
        for verb in taken(admin, path):
            for body in BODIES[at % share :: share]:
                check(send(admin, verb, path, body), f"{verb} {path} {body[:40]!r}")


def test_an_address_that_takes_no_body_refuses_it_unread(admin: APIClient, rest: list[str]) -> None:
    refused = [
        (verb, path) for path in rest for verb in {"post", "patch"} - set(taken(admin, path))
    ]
    assert refused
    for verb, path in refused:
        for body in (b"{", b"[" * 100_000, b" " * 2_700_000):
            answer = send(admin, verb, path, body)
            check(answer, f"{verb} {path}")
            # Too large a body is refused before its address is looked up.
            assert answer.status_code in ((405, 413) if len(body) > 1_000 else (405,))


def test_other_content_types(admin: APIClient, rest: list[str]) -> None:
    for path in rest:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = admin.post(f"/{path}", data=b"a=b", content_type=kind)
            check(answer, f"{kind} {path}")


@shared_out
def test_values_of_the_wrong_kind(admin: APIClient, rest: list[str], share: int) -> None:
    dice = random.Random(7)
    for at, path in enumerate(rest):
        verbs = taken(admin, path)
        for value in HOSTILE[at % share :: share]:
            names = dice.sample(FIELDS, 4)
            body = json.dumps({**dict.fromkeys(names, value), "source": value, "alias": value})
            for verb in verbs:
                what = f"{verb} {path} {names} {str(value)[:40]!r}"
                check(send(admin, verb, path, body), what)


@pytest.mark.parametrize("field", ["properties", "source", "desired_state", "runner"])
def test_a_flow_with_one_hostile_field(admin: APIClient, flow: Any, field: str) -> None:
    for value in HOSTILE:
        body = json.dumps({"source": "backup", "target": "primary", field: value})
        answer = admin.post("/api/v1/flows/", data=body, content_type="application/json")
        check(answer, f"{field} {str(value)[:40]!r}")
        body = json.dumps({field: value})
        url = f"/api/v1/flows/{flow['id']}/"
        check(admin.patch(url, data=body, content_type="application/json"), field)


@pytest.mark.parametrize("key", ["topics", "tasks.max", "start.from", "", "\u0000", "a" * 5000])
def test_properties_with_hostile_values(admin: APIClient, flow: Any, key: str) -> None:
    for value in HOSTILE:
        body = json.dumps({"properties": {key: value}})
        for path in ("", "preview/"):
            verb, url = "post" if path else "patch", f"api/v1/flows/{flow['id']}/{path}"
            check(send(admin, verb, url, body), f"{key} {value!r:.40}")


def queries_for(admin: APIClient, path: str) -> list[str]:
    if path.endswith("/schema/"):
        # It takes half a second to answer and looks at no other word.
        return ["format=xml", "format=%00", "lang=%00", "lang=" + "a" * 5_000]
    # What cannot be read is refused before its query is looked at: one is enough.
    return QUERIES[:1] if admin.get(f"/{path}").status_code == 405 else QUERIES


@shared_out
def test_queries_of_every_kind(admin: APIClient, rest: list[str], share: int) -> None:
    for at, path in enumerate(rest):
        for query in queries_for(admin, path)[at % share :: share]:
            check(admin.get(f"/{path}?{query}"), f"{path}?{query[:60]}")


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("page=-1", 404, "page"),
        ("page=x", 404, "page"),
        ("page_size=0", 400, "page_size"),
        ("page_size=-1", 400, "page_size"),
        ("page_size=many", 400, "page_size"),
        ("search=%00", 400, "search"),
        ("ordering=__class__", 400, "ordering"),
    ],
)
def test_a_query_that_cannot_be_answered_names_its_parameter(
    admin: APIClient, flow: Any, query: str, status: int, field: str
) -> None:
    answer = admin.get(f"/api/v1/flows/?{query}")
    assert answer.status_code == status
    assert set(answer.json()["error"]["fields"]) == {field}


def test_a_body_that_is_too_large_is_said_to_be(admin: APIClient, flow: Any) -> None:
    for size in (1_100_000, 2_700_000):
        body = b" " * size
        answer = admin.post("/api/v1/clusters/", data=body, content_type="application/json")
        assert answer.status_code == 413
        assert "larger than" in answer.json()["error"]["message"]


def test_a_runner_without_a_slot_is_refused(admin: APIClient) -> None:
    for master in ("local[0]", "local[00,4]"):
        answer = admin.post("/api/v1/runners/", {"name": "none", "master": master})
        assert answer.status_code == 400
        assert set(answer.json()["error"]["fields"]) == {"master"}


@pytest.mark.parametrize(
    "path",
    [
        "flows/99999999999999999999/",
        "flows/999999999999999999/",
        "flows/-1/",
        "flows/1/nothing/",
        "flows/%00/",
        "clusters/%00/",
        "clusters/" + "a" * 500 + "/",
        "clusters/a%2Fb/",
        "runners/%ff/",
        "tests/0/",
        "nothing",
        "../../etc/passwd",
    ],
)
def test_keys_that_are_none(admin: APIClient, rest: list[str], path: str) -> None:
    for verb in ("get", "post", "patch", "delete", "put", "options", "trace"):
        check(admin.generic(verb.upper(), f"/api/v1/{path}"), f"{verb} {path}")


def test_what_django_itself_refuses_below_api_has_the_same_shape(admin: APIClient) -> None:
    wrong_host = admin.get("/api/v1/flows/", HTTP_HOST="evil.example")
    check(wrong_host, "host")
    assert wrong_host.status_code == 400
    assert admin.get("/api/v2/").json()["error"]["code"] == "not_found"
    assert admin.put("/api/v1/flows/").json()["error"]["code"] == "method_not_allowed"
    bad_token = APIClient().get("/api/v1/flows/", HTTP_AUTHORIZATION="Token \u00e9\u00e9")
    check(bad_token, "token")


def test_an_unknown_field_is_refused_by_its_name(admin: APIClient, rest: list[str]) -> None:
    body = {"alias": "west", "bootstrap_servers": "x:9092", "is_admin": True, "reachable": True}
    fields = admin.post("/api/v1/clusters/", body).json()["error"]["fields"]
    (unknown,) = fields.pop("is_admin")
    assert unknown.startswith("This field does not exist. Fields: alias, ")
    assert "reachable" not in unknown
    assert fields == {"reachable": ["This field is read-only."]}


def test_a_flow_that_is_not_given_by_its_id_is_refused_with_a_reason(admin: APIClient) -> None:
    for path in ("offsets/translate/", "failbacks/", "exports/"):
        name, given = ("flows", ["west"]) if path == "exports/" else ("flow", "west")
        error = admin.post(f"/api/v1/{path}", {name: given}).json()["error"]
        assert "There is no flow west." in str(error), (path, error)
