"""A coordinator that says nothing for now may know of a transaction that has not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.hanging import see_ended
from mirrors.kafka.producers.nodes import Nodes
from tests.wire.world import Side, soon, unique


class Deaf(Nodes):
    """As when the broker that is meant hangs, and another one tells who it is."""

    def ask(self, request: Any, deadline: float, **how: Any) -> Any:
        if how.get("node") is not None:
            raise KafkaUnavailable("It says nothing.", code="timeout")
        return super().ask(request, deadline, **how)


@pytest.fixture
def deaf(target: Side) -> Iterator[Deaf]:
    nodes = Deaf(target.spec)
    nodes.open(soon())
    yield nodes
    nodes.close()


def test_it_is_not_taken_for_one_that_knows_of_none(deaf: Deaf) -> None:
    name = unique("pen")
    with pytest.raises(KafkaUnavailable, match="says nothing"):
        see_ended(deaf, name, [("t", 0)], deaf.leaders, soon(2))
    with pytest.raises(KafkaUnavailable, match="says nothing"):
        Coordinator(deaf, name).describe(soon(1))


def test_one_that_knows_of_none_says_so(target: Side) -> None:
    assert Coordinator(target.client, unique("pen")).describe(soon()) is None
