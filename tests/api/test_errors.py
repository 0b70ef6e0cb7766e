"""Internal errors: one shape, a reference, no traceback, no secret."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from rest_framework.test import APIClient

from mirrors.api.flows.flow import FlowViewSet


def breaking(error: Exception) -> Any:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise error

    return broken


def test_a_defect_is_a_500_that_says_nothing_but_where_to_look(
    viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlowViewSet, "get_queryset", breaking(RuntimeError("password=hunter2")))
    answer = viewer.get("/api/v1/flows/")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal"
    assert error["reference"]
    assert "hunter2" not in answer.content.decode()
    assert "RuntimeError" not in answer.content.decode()


def test_a_database_that_is_away_is_a_503(
    viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlowViewSet, "get_queryset", breaking(OperationalError("host db")))
    answer = viewer.get("/api/v1/flows/")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "database_unavailable"


def test_a_database_that_is_away_before_the_view_is_a_503_too(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "controlplane.web.middleware.access_of", breaking(OperationalError("host db"))
    )
    answer = Client(raise_request_exception=False).get("/api/v1/docs/")
    assert answer.status_code in {302, 503}


def test_a_page_that_breaks_shows_the_reference_and_no_traceback(
    people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(next(iter(people.values())))
    monkeypatch.setattr("controlplane.api.docs.groups", breaking(RuntimeError("password=hunter2")))
    answer = client.get("/api/v1/docs/")
    assert answer.status_code == 500
    assert "hunter2" not in answer.content.decode()
    assert "Traceback" not in answer.content.decode()
    assert answer["X-Request-ID"]
