"""A partition's leader moves between brokers of different versions; each response is assigned to
it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.kafka.protocol.metadata import Leader, TopicView
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.request_header import PRODUCE

TOPIC_ID = bytes(range(16))


class Brokers:
    """A cluster in the middle of an upgrade: broker 0 knows topics by name, broker 1 by id."""

    alias = "target"
    request_s = 1.0
    leader = 0

    def __init__(self) -> None:
        self._stream = socket.socket()

    def close(self) -> None:
        self._stream.close()

    def describe(self, names: Any, deadline: float) -> dict[str, TopicView]:
        return {"s.t": TopicView("s.t", TOPIC_ID, 0, {0: Leader(self.leader, self.leader)})}

    def connection(self, node: int, purpose: str, deadline: float) -> Any:
        newest = (produce.TOPIC_ID_VERSION - 1, produce.TOPIC_ID_VERSION)[node]
        return SimpleNamespace(
            stream=self._stream,
            version=lambda key, least, most, what: {PRODUCE: min(newest, most)}[key],
        )


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with closing(Brokers()) as both:
        yield both


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0)])
def test_a_reply_of_the_broker_before_finds_its_partition(
    order: tuple[int, ...], brokers: Brokers
) -> None:
    partition = Partition("t", 0, "s.t", remote_id=TOPIC_ID)
    target_leaders = TargetLeaders(
        brokers, [partition], transactional_id=None, tuning=ProducerSettings()
    )  # type: ignore[arg-type]
    for moment, node in enumerate(order):
        brokers.leader = node
        target_leaders.look_up_leader(partition, 0.0)
        assert target_leaders.find_leaders(float(moment + 1)) == [(partition, 0)]
        assert partition.connection_id == (node, 0)
        assert partition.remote_key == (produce.name_key("s.t"), TOPIC_ID)[node]
    for key in (produce.name_key("s.t"), TOPIC_ID):
        assert target_leaders.by_key[key, 0] is partition
