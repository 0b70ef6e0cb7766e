"""People with each role, and clients that speak REST as them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from mirrors.models import Role
from mirrors.services.users import create_token, ensure_person


@pytest.fixture
def people(db: None) -> dict[Role, User]:
    return {
        role: ensure_person(username=role.word, password=None, role=role)
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    }


def client_of(username: str) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Token {create_token(username=username)}")
    return client


@pytest.fixture
def viewer(people: dict[Role, User]) -> APIClient:
    return client_of("viewer")


@pytest.fixture
def operator(people: dict[Role, User]) -> APIClient:
    return client_of("operator")


@pytest.fixture
def admin(people: dict[Role, User]) -> APIClient:
    return client_of("admin")


@pytest.fixture
def two_clusters(admin: APIClient) -> tuple[str, str]:
    for alias in ("primary", "backup"):
        body = {"alias": alias, "bootstrap_servers": "127.0.0.1:9"}
        assert admin.post("/api/v1/clusters/", body).status_code == 201
    return "primary", "backup"


@pytest.fixture
def flow(operator: APIClient, two_clusters: tuple[str, str]) -> dict[str, Any]:
    body = {"source": "primary", "target": "backup", "desired_state": "stopped"}
    answer = operator.post("/api/v1/flows/", body)
    assert answer.status_code == 201, answer.json()
    return answer.json()
