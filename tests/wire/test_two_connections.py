"""A backlog uses two connections to a target broker, live traffic one."""

from __future__ import annotations

import os
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.produce_connection import ProduceConnection, connections_after
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import Record, encode_batch
from tests.wire.stops import BIG, NOW
from tests.wire.world import Driver, Flow, Side, bare, soon, unique

PARTITIONS = 4
BUSY = st.lists(
    st.builds(SimpleNamespace, was_full=st.booleans(), most_in_flight=st.integers(0, 5)),
    min_size=1,
    max_size=2,
)


@given(BUSY, st.sampled_from([1, 2]))
def test_two_for_whom_one_was_too_few_one_for_whom_one_would_do_and_else_as_before(
    connections: list[Any], before: int
) -> None:
    width = connections_after(before, connections, 5)
    if any(connection.was_full for connection in connections):
        assert width == 2
    elif sum(connection.most_in_flight for connection in connections) <= 5:
        assert width == 1
    else:
        assert width == before


class ConnectionsOfBatches:
    """Which partitions' batches went over which connection, in the order in which they left."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[tuple[int, int], int]] = []
        # A partition's batches that flew over two connections at once: their order is nobody's.
        self.torn: list[tuple[str, int]] = []
        self._pipes: set[ProduceConnection] = set()
        send = ProduceConnection.send

        def seen(connection: ProduceConnection, batches: BatchesInFlight, now: float) -> None:
            for partition in batches:
                if not partition.is_internal:
                    self.sent.append((connection.connection_id, partition.partition))
                others = [p for p in self._pipes if p is not connection]
                if any(partition in other for p in others for other in p.in_flight):
                    self.torn.append((partition.topic, partition.partition))
            self._pipes.add(connection)
            send(connection, batches, now)

        patch.setattr(ProduceConnection, "send", seen)


def backlog(source: Side, topic: str) -> None:
    view = source.client.describe([topic], soon())[topic]
    connection = source.client.connection(view.leaders[0].node, "backlog", soon())
    writer = produce.RequestWriter(13, None, timeout_ms=10_000)
    batch = encode_batch([Record(at, NOW, b"k", BIG) for at in range(4)])
    rows = [(partition.to_bytes(4, "big"), batch) for partition in range(PARTITIONS)]
    for _ in range(100):
        connection.send(
            writer.parts(connection.next_correlation(), [(view.topic_id, rows)]), soon()
        )
        answers = produce.read_reply(connection.receive(None, soon()), 13)[1]
        assert not any(answer.error for answer in answers), answers


class SlowBacklog:
    """Says when a copy is over: all was caught up with, and what was then written slowly too."""

    def __init__(self, source: Side, topic: str, flow: Flow, *, batches: int) -> None:
        self._source, self._topic, self._left = source, topic, batches
        self._ends = flow.ends()
        self._at = 0.0

    def __call__(self, driver: Driver) -> bool:
        now = time.monotonic()
        if any(driver.position(*tp) < end for tp, end in self._ends.items()):
            return False
        if self._left and now > self._at:
            self._at = now + 0.05
            self._left -= 1
            for topic, partition in self._ends:
                self._source.write(topic, partition, [Record(0, NOW, b"k", b"small")])
                self._ends[topic, partition] += 1
            return False
        return not self._left


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_backlog_takes_two_what_follows_slowly_one_and_all_is_there_once_and_in_order(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    watched = ConnectionsOfBatches(monkeypatch)
    topic = unique("wide")
    source.make(topic, PARTITIONS)
    backlog(source, topic)
    flow = Flow(source, target, delivery=delivery, commit_interval_ms="20")
    remote = flow.add(topic)
    driver = Driver(until=SlowBacklog(source, topic, flow, batches=10))
    result = RawCopier().run(flow.work(), driver)  # type: ignore[arg-type]
    assert result.ended_because == "stop", result
    for partition in range(PARTITIONS):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
    assert {number for (_, number), _ in watched.sent} == {0, 1}
    assert not watched.torn
    assert {number for (_, number), _ in watched.sent[-3 * PARTITIONS :]} == {0}


def test_a_broker_that_takes_no_second_connection_is_asked_for_it_once(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    connection = ClusterClient.connection

    def refuse(client: ClusterClient, node: int, purpose: str, deadline: float) -> Connection:
        if purpose == "produce 1":
            asked.append(node)
            raise KafkaUnavailable("One connection is enough.", code="unreachable")
        return connection(client, node, purpose, deadline)

    monkeypatch.setattr(ClusterClient, "connection", refuse)
    topic = unique("single")
    source.make(topic, PARTITIONS)
    backlog(source, topic)
    flow = Flow(source, target, commit_interval_ms="20")
    remote = flow.add(topic)
    result, _ = flow.copy()
    assert result.ended_because == "stop", result
    for partition in range(PARTITIONS):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
    assert len(asked) == 1


def test_a_second_connection_that_cannot_be_had_again_is_done_without(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has reached its limit of connections meanwhile: the first one takes all."""
    seconds: list[Connection] = []
    connection = ClusterClient.connection

    def once(client: ClusterClient, node: int, purpose: str, deadline: float) -> Connection:
        if purpose == "produce 1" and seconds:
            raise KafkaUnavailable("Too many connections.", code="unreachable")
        found = connection(client, node, purpose, deadline)
        if purpose == "produce 1":
            seconds.append(found)
        return found

    monkeypatch.setattr(ClusterClient, "connection", once)
    cut: list[Connection] = []

    def over(driver: Driver) -> bool:
        if seconds and not cut:
            cut.extend(seconds)
            with socket.socket(fileno=os.dup(cut[0].fileno())) as handle:
                handle.shutdown(socket.SHUT_RDWR)
        return all(driver.position(*tp) >= end for tp, end in ends.items())

    topic = unique("again")
    source.make(topic, PARTITIONS)
    backlog(source, topic)
    flow = Flow(source, target, commit_interval_ms="20")
    remote = flow.add(topic)
    ends = flow.ends()
    # Long before the partitions without a connection would be given up.
    result = RawCopier().run(flow.work(seconds=12), Driver(until=over))  # type: ignore[arg-type]
    assert cut, "one connection was enough all the time"
    assert result.ended_because == "stop", result
    for partition in range(PARTITIONS):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
