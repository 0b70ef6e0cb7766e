"""A coordinator that does not respond may know a transaction that has not ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.producers.cluster import ProducerBrokers
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.hanging_transactions import states, wait_until_ended
from tests.wire.world import Side, soon, unique


class HungCoordinator(ProducerBrokers):
    """As when the broker that is meant hangs, and another one tells who it is."""

    def send_request(self, request: Any, deadline: float, **how: Any) -> Any:
        if how.get("node") is not None:
            raise KafkaUnavailable("It says nothing.", code="timeout")
        return super().send_request(request, deadline, **how)


@pytest.fixture
def deaf(target: Side) -> Iterator[HungCoordinator]:
    nodes = HungCoordinator(target.spec)
    nodes.open(soon())
    yield nodes
    nodes.close()


class HungBroker(ProducerBrokers):
    """The broker of number 99 takes questions, and all the time there is."""

    def send_request(self, request: Any, deadline: float, **how: Any) -> Any:
        if how.get("node") == 99:
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise KafkaUnavailable("It says nothing.", code="timeout")
        return super().send_request(request, deadline, **how)


def test_a_broker_that_hangs_does_not_take_the_time_of_the_others(target: Side) -> None:
    nodes, first, other = HungBroker(target.spec), unique("first"), unique("other")
    for name in (first, other):
        target.make(name)
    with contextlib.closing(nodes):
        nodes.open(soon())

        def leaders(
            partitions: Iterable[TopicPartition], deadline: float
        ) -> dict[TopicPartition, int]:
            found = nodes.find_leaders(partitions, deadline)
            return {tp: 99 if tp[0] == first else node for tp, node in found.items()}

        found = states(nodes, [(first, 0), (other, 0)], leaders, 4711)
    assert found == {(other, 0): None}


def test_it_is_not_taken_for_one_that_knows_of_none(deaf: HungCoordinator) -> None:
    name = unique("pen")
    with pytest.raises(KafkaUnavailable, match="says nothing"):
        wait_until_ended(deaf, name, [("t", 0)], deaf.find_leaders, soon(2))
    with pytest.raises(KafkaUnavailable, match="says nothing"):
        Coordinator(deaf, name).describe(soon(1))


def test_one_that_knows_of_none_says_so(target: Side) -> None:
    assert Coordinator(target.client, unique("pen")).describe(soon()) is None
