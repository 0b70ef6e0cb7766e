"""The two sides that a flow planned by hand leads between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wire.sides import Side


@pytest.fixture(scope="module")
def source(primary: str) -> Iterator[Side]:
    side = Side("one", primary)
    yield side
    side.close()


@pytest.fixture(scope="module")
def target(backup: str) -> Iterator[Side]:
    side = Side("two", backup)
    yield side
    side.close()
