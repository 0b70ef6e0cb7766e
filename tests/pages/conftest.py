"""Fixtures of the page tests: a person per role, and a queue without workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from controlplane.celery import app
from mirrors.models import Cluster, Role
from mirrors.services.users import ensure_person
from tests.pages import world

As = Callable[[str], Client]


@pytest.fixture(autouse=True)
def silent_queue() -> Iterator[None]:
    """Messages go to memory: no page test needs Redis, and none may reach a real one."""
    before = app.conf.broker_url
    app.conf.broker_url = "memory://"
    yield
    app.conf.broker_url = before


@pytest.fixture
def signed_in(db: None) -> As:
    """A browser signed in with a role; "nobody" has an account and no role."""

    def sign_in(word: str) -> Client:
        client = Client()
        role = Role.VIEWER if word == "nobody" else Role[word.upper()]
        person = ensure_person(username=f"the-{word}", password=None, role=role)
        if word == "nobody":
            person.groups.clear()
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


@pytest.fixture
def admin(signed_in: As) -> Client:
    return signed_in("admin")


@pytest.fixture
def viewer(signed_in: As) -> Client:
    return signed_in("viewer")


@pytest.fixture
def pair(db: None) -> tuple[Cluster, Cluster]:
    return world.cluster("primary"), world.cluster("backup")
