"""A failed broker that metadata still lists: the new leader or coordinator is found within a
moment."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.list_offsets import list_offsets
from mirrors.kafka.protocol.metadata import TopicView
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery import target_truncation
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.engine.source.replicated_filter import OffsetRunsReader
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import Record
from spark_runner.status import source_offsets
from tests.wire.sides import Side, soon, unique

NOW = int(time.time() * 1000)
MOMENT_S = 1.5


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that refuses connections and stays reserved."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class StaleMetadata(ClusterClient):
    """A number of metadata responses still lists every broker at an address without a broker."""

    def __init__(self, spec: ClusterSpec, closed: int) -> None:
        super().__init__(spec)
        self._closed = closed
        self.late = 0

    def fall(self, late: int) -> None:
        """The brokers are gone from where they were; what was connected breaks."""
        self.late = late
        for (node, _), connection in list(self._connections.items()):
            if node >= 0:
                connection.stream.close()
        self.brokers = dict.fromkeys(self.brokers, ("127.0.0.1", self._closed))

    def update_from_metadata(self, reply: Any) -> dict[str, TopicView]:
        views = super().update_from_metadata(reply)
        if self._is_late():
            self.brokers = dict.fromkeys(self.brokers, ("127.0.0.1", self._closed))
        return views

    def send_request(self, request: Any, deadline: float, **how: Any) -> Any:
        reply = super().send_request(request, deadline, **how)
        if isinstance(request, FindCoordinatorRequest) and self._is_late():
            for row in reply.coordinators:
                row.port = self._closed
        return reply

    def _is_late(self) -> bool:
        self.late -= 1
        return self.late >= 0


@pytest.fixture
def late(target: Side, closed: int) -> Iterator[StaleMetadata]:
    client = StaleMetadata(target.spec, closed)
    client.open(soon())
    yield client
    client.close()


def test_positions_are_read_where_they_are_led_now(target: Side, late: StaleMetadata) -> None:
    topic = unique("positions")
    target.make(topic)
    place = Position(
        topic="t",
        partition=0,
        position=7,
        source_cluster="from",
        source_topic_id="a",
        target_cluster="to",
        target_topic_id="b",
    )
    target.write(topic, 0, [Record(0, NOW, place.key, place.value)])
    late.fall(2)
    began = time.monotonic()
    assert PositionReader(late, topic).read(soon()).keys() == {("t", 0)}
    assert time.monotonic() - began < MOMENT_S


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_ended_where_it_is_coordinated_now(
    target: Side, late: StaleMetadata, commit: bool
) -> None:
    topic = unique("ended")
    target.make(topic)
    side = Side("two", target.spec.bootstrap_servers)
    side.client.close()
    side.client = late
    transaction = side.transaction(unique("id"))
    transaction.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    late.fall(2)
    began = time.monotonic()
    transaction.end(commit=commit)
    assert time.monotonic() - began < MOMENT_S
    assert len(target.read(topic)) == int(commit)


def test_the_ends_of_remote_partitions_are_asked_of_who_leads_them_now(
    target: Side, late: StaleMetadata
) -> None:
    topic = unique("remote")
    view = target.make(topic)
    target.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    partition = Partition("t", 0, topic, remote_id=view.topic_id)
    late.fall(2)
    assert target_truncation.ends(late, [partition]) == {partition: 1}


def test_runs_are_read_where_they_are_led_now(target: Side, late: StaleMetadata) -> None:
    topic = unique("runs")
    view = target.make(topic)
    target.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    late.fall(1)
    began = time.monotonic()
    assert list(OffsetRunsReader(late, view, lambda: None).read(soon())) == [(b"k", b"v", -1)]
    assert time.monotonic() - began < MOMENT_S


def test_the_ends_of_the_source_are_asked_of_who_leads_now(
    target: Side, late: StaleMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("ends")
    target.make(topic)
    target.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    monkeypatch.setattr(source_offsets, "ClusterClient", lambda spec: late)
    sampler = source_offsets.OffsetSampler(target.spec)
    assert sampler.sample([(topic, 0)]).end == {(topic, 0): 1}
    late.fall(2)
    began = time.monotonic()
    assert sampler.sample([(topic, 0)]).stable == {(topic, 0): 1}
    assert time.monotonic() - began < MOMENT_S


def test_a_connection_that_broke_is_opened_once_more(target: Side, late: StaleMetadata) -> None:
    view = target.make(unique("broken"))
    wanted = [(view.name, 0, view.leaders[0])]
    assert list_offsets(late, wanted, deadline=soon())[view.name, 0].offset == 0
    for connection in late._connections.values():
        connection.stream.close()
    assert list_offsets(late, wanted, deadline=soon())[view.name, 0].offset == 0


def test_a_broker_that_nobody_replaces_is_given_up_at_the_deadline(
    target: Side, late: StaleMetadata
) -> None:
    topic = unique("never")
    target.make(topic)
    late.fall(1_000_000)
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable):
        PositionReader(late, topic).read(soon(2.0))
    assert 1.0 < time.monotonic() - began < 2.5
    # With a pause between the looks.
    assert 1_000_000 - late.late < 10
