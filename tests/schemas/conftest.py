"""Schema registries for the tests of this folder: a real one, and one that fails as told."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controlplane.demo.processes.guard import Guard
from tests.schemas.apicurio import Apicurio
from tests.schemas.fake_registry import FakeRegistry


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    """The URL of a real registry."""
    if given := os.environ.get("UNDERSTUDY_TEST_REGISTRY"):
        yield given
        return
    server = Apicurio(tmp_path_factory.mktemp("apicurio"), dict(guard.environment))
    try:
        server.wait()
        yield server.url
    finally:
        server.close()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    found = FakeRegistry()
    yield found
    found.close()
