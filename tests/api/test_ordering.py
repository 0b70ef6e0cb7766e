"""Orders of the list of flows."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient


@pytest.fixture
def three(admin: APIClient) -> None:
    for alias in ("a", "b", "c"):
        admin.post("/api/v1/clusters/", {"alias": alias, "bootstrap_servers": "x:9092"})
    for source, target in (("b", "a"), ("a", "c"), ("a", "b")):
        body = {"source": source, "target": target, "desired_state": "stopped"}
        assert admin.post("/api/v1/flows/", body).status_code == 201


@pytest.mark.parametrize(
    ("ordering", "names"),
    [
        ("name", ["a->b", "a->c", "b->a"]),
        ("-name", ["b->a", "a->c", "a->b"]),
        ("-source,target", ["b->a", "a->b", "a->c"]),
        ("-id", ["a->b", "a->c", "b->a"]),
        ("offset_lag,name", ["a->b", "a->c", "b->a"]),
    ],
)
def test_flows_by(admin: APIClient, three: Any, ordering: str, names: list[str]) -> None:
    answer = admin.get("/api/v1/flows/", {"ordering": ordering}).json()
    assert [flow["name"] for flow in answer["results"]] == names


def test_flows_of_a_source(admin: APIClient, three: Any) -> None:
    answer = admin.get("/api/v1/flows/?source=a").json()
    assert [flow["name"] for flow in answer["results"]] == ["a->c", "a->b"]


def test_an_address_without_its_last_slash_answers_too(admin: APIClient, three: Any) -> None:
    assert admin.get("/api/v1/flows").json()["count"] == 3
    assert admin.post("/api/v1/flows/1/start").status_code in {200, 404}
    assert admin.get("/api/v1/schema").status_code == 200
