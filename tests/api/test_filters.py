"""A filter of a list returns rows or a clear error; it never causes a server error."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from mirrors.models import Role
from tests.api.test_access import addresses, is_rest

VALUES = [
    "",
    " ",
    "x",
    "-1",
    "0",
    "1.5",
    "1,2",
    "9" * 12,
    "9" * 19,
    "9" * 400,
    "\u0663",
    "true",
    "null",
    "2026-11-25",
    "2026-11-25T00:00:00",
    "\x00",
    "a\x00b",
    "\u00e9" * 2000,
    "[]",
]
TURNS = 3


@pytest.fixture
def admin(people: dict[Role, User]) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(people[Role.ADMIN])
    return client


def filters(flow: int) -> list[tuple[str, str]]:
    """Each list with each of its filters; those of this flow, whose number is the database's."""
    return sorted(
        (path.replace("flows/1/", f"flows/{flow}/"), name)
        for path, view in addresses()
        if is_rest(path)
        for name in getattr(getattr(view, "cls", None), "filter_fields", {})
    )


@pytest.mark.parametrize("turn", range(TURNS))
def test_every_filter_of_every_list_takes_every_value(
    admin: APIClient, flow: Any, turn: int
) -> None:
    """In a turn each filter takes a third of the values, and each value a third of the filters."""
    found = filters(flow["id"])
    paths = dict.fromkeys(path for path, _ in found)
    lists = {path for path in paths if admin.get(f"/{path}").status_code == 200}
    pairs = [pair for pair in found if pair[0] in lists]
    assert {"flow", "state", "topic"} <= {name for _, name in pairs}
    broken = []
    for number, (path, name) in enumerate(pairs):
        for value in VALUES[(number + turn) % TURNS :: TURNS]:
            answer = admin.get(f"/{path}?{name}={quote(value)}")
            if answer.status_code >= 500:
                broken.append(f"{path}?{name}={value[:20]!r}")
            elif answer.status_code == 400:
                assert set(answer.json()["error"]["fields"]) == {name}, (path, name, value)
    assert broken == []


@pytest.mark.parametrize("value", ["", "x", "1.5", "-", "\u0663", "9" * 19])
def test_a_number_that_is_none_names_its_filter(admin: APIClient, value: str) -> None:
    error = admin.get(f"/api/v1/failbacks/?flow={quote(value)}").json()["error"]
    assert error["fields"] == {"flow": ["Enter a whole number."]}
    assert admin.get("/api/v1/failbacks/?flow=1").json()["count"] == 0
    assert admin.get("/api/v1/failbacks/?flow=-1").json()["count"] == 0


def test_a_state_that_is_none_is_named_and_does_not_look_like_an_empty_list(
    admin: APIClient,
) -> None:
    for path in ("flows/?observed_state=", "failovers/?state=", "alerts/?state="):
        error = admin.get(f"/api/v1/{path}runing").json()["error"]
        ((name, (sentence,)),) = error["fields"].items()
        assert path.endswith(f"{name}=")
        assert sentence.startswith("'runing' is not one of "), path


# What pages read of their address.
OF_PAGES = [
    *("flow", "source", "target", "topic", "group", "partition", "offset", "state", "kind"),
    *("q", "page", "sort", "as", "of", "from", "range", "by", "number", "format", "partitions"),
]


@pytest.mark.parametrize("turn", range(2))
def test_every_page_takes_every_value_in_its_address(
    people: dict[Role, User], flow: Any, client: Client, turn: int
) -> None:
    """In a turn each page takes a sixth of the names, each with another value.

    No page answers a GET with 405.
    """
    client.force_login(people[Role.ADMIN])
    client.raise_request_exception = False
    paths = sorted({path for path, _ in addresses() if not is_rest(path)})
    codes = {path: client.get(f"/{path}").status_code for path in paths}
    # No worker runs here, which is what this address answers.
    assert codes.pop("readyz") == 503
    assert {path: code for path, code in codes.items() if code == 405 or code >= 500} == {}
    pages = [path for path, code in codes.items() if code == 200]
    assert len(pages) > 20
    broken = []
    for at, path in enumerate(pages):
        for number, name in enumerate(OF_PAGES[(at + 3 * turn) % 6 :: 6]):
            for value in VALUES[(at + number) % len(VALUES) :: len(VALUES)]:
                answer = client.get(f"/{path}?{name}={quote(value)}")
                if answer.status_code >= 500:
                    broken.append(f"{path}?{name}={value[:20]!r}")
                elif answer.streaming:
                    b"".join(answer.streaming_content)
    assert broken == []
