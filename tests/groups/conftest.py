"""Two real clusters, and flows between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.groups.world import World
from tests.wire.world import Side


@pytest.fixture
def world(sides: tuple[Side, Side], db: None) -> Callable[..., World]:
    """`world(groups="a.*")` is a flow of its own with these settings."""
    return lambda **properties: World.make(*sides, **properties)
