"""Without a database, a person gets the last rendering of a page with its age, or an error page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.http import HttpResponse
from django.test import Client

from tests.pages import world
from tests.pages.conftest import As

KEPT = "The database does not respond. This page and its figures are from"
GONE = "<h1>The database does not respond</h1>"


@contextlib.contextmanager
def away() -> Iterator[None]:
    def refuse(*_: Any) -> None:
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(refuse):
        yield


@pytest.fixture
def viewer(viewer: Client) -> Client:
    world.busy()
    viewer.raise_request_exception = False
    return viewer


def _asked(client: Client, path: str, **more: Any) -> HttpResponse:
    with away():
        answer: HttpResponse = client.get(path, **more)
    return answer


@pytest.mark.parametrize("path", ["/", "/flows/?q=primary", "/topology/"])
def test_a_page_seen_before_is_shown_as_it_was_and_of_when(viewer: Client, path: str) -> None:
    before = viewer.get(path)
    answer = _asked(viewer, path)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert KEPT in text
    assert "primary" in text
    assert '<body hx-ext="calm" data-stale' in text
    assert '<div id="live" data-heard="' in text
    # What keeps the browser safe is said again.
    for header in ("Content-Type", "Content-Security-Policy", "Cache-Control", "X-Frame-Options"):
        assert answer[header] == before[header]
    again = viewer.get(path).content.decode()
    assert KEPT not in again
    assert "data-heard" not in again


def test_nothing_is_shown_of_what_this_session_did_not_see(viewer: Client, signed_in: As) -> None:
    viewer.get("/flows/")
    admin = signed_in("admin")
    admin.raise_request_exception = False
    for client, path in ((viewer, "/flows/?q=other"), (admin, "/flows/")):
        answer = _asked(client, path)
        assert answer.status_code == 503
        assert GONE in answer.content.decode()


def test_a_refresh_is_refused_so_that_the_open_page_keeps_counting(viewer: Client) -> None:
    viewer.get("/flows/")
    assert _asked(viewer, "/flows/", headers={"HX-Request": "true"}).status_code == 503


def test_a_form_is_not_filled_in_from_memory(signed_in: As) -> None:
    admin = signed_in("admin")
    admin.raise_request_exception = False
    world.busy()
    assert admin.get("/add/flow/").status_code == 200
    assert _asked(admin, "/add/flow/").status_code == 503


def test_an_hour_later_it_is_too_old_to_be_shown(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer.get("/flows/")
    now = time.time()
    monkeypatch.setattr("controlplane.database.stale_page_cache.time.time", lambda: now + 3_500)
    assert "58 min" in _asked(viewer, "/flows/").content.decode()
    monkeypatch.setattr("controlplane.database.stale_page_cache.time.time", lambda: now + 3_700)
    assert _asked(viewer, "/flows/").status_code == 503


def test_what_a_change_cut_off_did_is_not_claimed(signed_in: As) -> None:
    admin = signed_in("admin")
    admin.raise_request_exception = False
    with away():
        answer = admin.post("/people/", {})
    assert answer.status_code == 503
    assert "The outcome of the last action is unknown" in answer.content.decode()
