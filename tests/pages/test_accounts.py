"""Tokens are shown once, people get roles, and every error page has a text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from knox.models import AuthToken

from mirrors.models import role_of
from tests.pages import world
from tests.pages.conftest import As


def test_a_token_is_shown_once_works_and_can_be_revoked(viewer: Client, client: Client) -> None:
    text = viewer.post("/account/tokens/", {"days": "7"}).content.decode()
    found = re.search(r'id="new-token"[^>]*>(\w{40,})<', text)
    assert found
    token = found[1]
    assert token not in viewer.get("/account/tokens/").content.decode()
    headers = {"Authorization": f"Token {token}"}
    assert client.get("/api/v1/flows/", headers=headers).status_code == 200
    row = AuthToken.objects.get()
    assert viewer.post(f"/account/tokens/{row.pk}/revoke/").status_code == 302
    assert client.get("/api/v1/flows/", headers=headers).status_code == 401


def test_the_answer_with_a_token_is_not_kept_by_caches(viewer: Client) -> None:
    assert viewer.post("/account/tokens/", {})["Cache-Control"] == "no-store"


def test_nobody_revokes_the_token_of_another(signed_in: As) -> None:
    signed_in("operator").post("/account/tokens/", {"days": "nonsense"})
    row = AuthToken.objects.get()
    assert signed_in("admin").post(f"/account/tokens/{row.pk}/revoke/").status_code == 404
    assert AuthToken.objects.exists()


def test_an_admin_adds_a_person_who_can_sign_in(admin: Client, client: Client) -> None:
    facts = {"username": "olga", "role": "operator", "password": "correct horse 9"}
    assert admin.post("/people/", facts).status_code == 302
    assert client.post("/login/", facts)["Location"] == "/"
    assert role_of(User.objects.get(username="olga")).word == "operator"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"username": ""}, "username"),
        ({"username": "The-Admin"}, "username"),
        ({"username": "a b\x00"}, "username"),
        ({"role": "emperor"}, "role"),
        ({"password": "123"}, "password"),
        ({"password": "eleven-char"}, "password"),
        ({"username": "olga.petrova", "password": "olga.petrova"}, "password"),
        ({"password": "Understudy123"}, "password"),
        ({"password": "understudy-understudy"}, "password"),
        ({"username": "worker"}, "username"),
    ],
)
def test_an_error_about_a_person_is_shown_at_its_field(
    admin: Client, change: dict[str, str], field: str
) -> None:
    facts = {"username": "olga", "role": "viewer", "password": "correct horse 9", **change}
    answer = admin.post("/people/", facts)
    assert answer.status_code == 422
    assert f'id="id_{field}-errors"' in answer.content.decode()
    assert User.objects.count() == 1


def test_roles_change_but_not_ones_own(admin: Client, signed_in: As) -> None:
    signed_in("viewer")
    viewer = User.objects.get(username="the-viewer")
    me = User.objects.get(username="the-admin")
    admin.post(f"/people/{viewer.pk}/role/", {"role": "operator"})
    admin.post(f"/people/{me.pk}/role/", {"role": "viewer"})
    admin.post(f"/people/{viewer.pk}/role/", {"role": "emperor"})
    assert role_of(User.objects.get(pk=viewer.pk)).word == "operator"
    assert role_of(User.objects.get(pk=me.pk)).word == "admin"


def test_a_missing_page_says_so_with_a_reference(viewer: Client, client: Client) -> None:
    for path in (
        "/nowhere/",
        "/flows/999/",
        "/clusters/nope/",
        "/runners/nope/",
        "/flows/1/xyz/",
        f"/flows/{10**30}/",
    ):
        answer = viewer.get(path)
        assert answer.status_code == 404, path
        assert "Nothing is at this address" in answer.content.decode()
        assert answer["X-Request-ID"] in answer.content.decode()
    assert client.get("/nowhere/").status_code == 404


def test_guessing_a_password_ends_in_a_lock_that_explains_itself(
    client: Client, admin: Client
) -> None:
    answers = [
        client.post("/login/", {"username": "the-admin", "password": "no"}) for _ in range(9)
    ]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert "The lock ends five minutes after" in answers[-1].content.decode()


def test_a_form_without_a_csrf_token_is_refused_with_a_reason(db: None) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "x"})
    assert answer.status_code == 403
    assert "too old or from another site" in answer.content.decode()
    assert "Reference" in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RuntimeError("secret-detail"), 500, "Internal error"),
        (OperationalError("secret-detail"), 503, "The database does not respond"),
    ],
)
def test_a_crash_shows_a_reference_and_no_detail(
    viewer: Client,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    words: str,
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr("mirrors.views.flows.pages.flows_with_lag", broken)
    viewer.raise_request_exception = False
    answer = viewer.get("/flows/")
    text = answer.content.decode()
    assert (answer.status_code, words in text) == (status, True)
    assert "secret-detail" not in text
    assert answer["X-Request-ID"] in text


def test_search_finds_flows_clusters_runners_and_topics_by_part_of_their_name(
    viewer: Client,
) -> None:
    world.busy()
    text = viewer.get("/search/?q=PRIM").content.decode()
    assert [kind in text for kind in ("<td>flow<", "<td>cluster<", "<td>topic<")] == [True] * 3
    assert "<td>flow<" in viewer.get("/search/?q=primary→back").content.decode()
    assert "<td>runner<" in viewer.get("/search/?q=defau").content.decode()
    assert "Nothing has this in its name" in viewer.get("/search/?q=zzz").content.decode()


def test_the_theme_is_remembered_by_the_server_and_nothing_else_is_let_in(
    db: None, client: Client
) -> None:
    client.cookies["theme"] = "dark"
    assert '<html lang="en" data-theme="dark">' in client.get("/login/").content.decode()
    client.cookies["theme"] = '"><script>'
    assert "data-theme" not in client.get("/login/").content.decode()


def test_search_ranks_exact_names_then_beginnings_then_words_with_one_row_per_topic(
    viewer: Client,
) -> None:
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    other = world.flow(flow.target, flow.source)
    for name in ("reorders", "eu.orders", "orders-late", "orders"):
        world.topic(flow, name)
    world.topic(other, "orders", remote_topic="backup.orders")
    rows = json.loads(viewer.get("/search/?as=json&q=ORDERS").getvalue())
    topics = [row for row in rows if row["kind"] == "topic"]
    assert [row["name"] for row in topics] == ["orders", "orders-late", "eu.orders", "reorders"]
    assert topics[0]["where"] == "primary→backup and 1 more"


def test_search_cuts_the_weakest_matches(viewer: Client) -> None:
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    for number in range(30):
        world.topic(flow, f"a{number:02}-reorders")
    world.topic(flow, "orders")
    rows = json.loads(viewer.get("/search/?as=json&q=orders").getvalue())
    assert rows[0]["name"] == "orders"
