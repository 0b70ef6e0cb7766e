"""Two real clusters, and flows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.groups.world import World
from tests.wire.world import Side


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    pair = Side("one", primary), Side("two", backup)
    yield pair
    for side in pair:
        side.close()


@pytest.fixture
def world(sides: tuple[Side, Side], db: None) -> Callable[..., World]:
    """`world(groups="a.*")` is a flow of its own with these settings."""
    return lambda **properties: World.make(*sides, **properties)
