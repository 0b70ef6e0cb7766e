"""REST takes a flow by id or by name: in addresses, bodies and filters."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.models import Flow


@pytest.fixture
def name(flow: Any) -> str:
    return str(Flow.objects.get().name)


def test_addresses_take_the_name(admin: APIClient, name: str) -> None:
    pk = Flow.objects.get().pk
    assert admin.get(f"/api/v1/flows/{name}/").json()["id"] == pk
    assert admin.get(f"/api/v1/flows/{name.replace('>', '%3E')}/").json()["id"] == pk
    for part in ("topics", "partitions", "objectives", "takeover", "duties", "readiness", "audit"):
        by_name = admin.get(f"/api/v1/flows/{name}/{part}/")
        assert by_name.status_code == admin.get(f"/api/v1/flows/{pk}/{part}/").status_code, part
    assert admin.get("/api/v1/flows/no->where/").status_code == 404
    assert admin.get("/api/v1/flows/no->where/topics/").status_code == 404
    assert APIClient().get(f"/api/v1/flows/{name}/").status_code == 401
    assert APIClient().get("/api/v1/flows/no->where/").status_code == 401


def test_bodies_take_the_name(admin: APIClient, name: str) -> None:
    def post(path: str, body: dict[str, Any]) -> Any:
        return admin.post(f"/api/v1/{path}/", body, format="json")

    made = post("silences", {"flow": name, "reason": "x", "ends_at": "2100-01-01T00:00:00Z"})
    assert made.json()["flow"] == Flow.objects.get().pk
    assert name in post("exports", {"flows": [name]}).json()["text"]
    for path in ("offsets/translate", "failbacks", "failovers", "comparisons", "drills"):
        fields = post(path, {"flow": "no->where"}).json()["error"]["fields"]
        assert "There is no flow no->where." in fields["flow"], path


def test_filters_take_the_name(admin: APIClient, name: str) -> None:
    for path in ("failbacks", "consumer-groups"):
        assert admin.get(f"/api/v1/{path}/", {"flow": name}).status_code == 200, path
    assert admin.get("/api/v1/failbacks/", {"flow": "no->where"}).json()["count"] == 0
