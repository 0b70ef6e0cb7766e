"""A long reply is read in parts; the target is served in between, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from mirrors.kafka.protocol import messages
from mirrors.kafka.security.connection_settings import connection_facts
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.poller import Selector
from spark_runner.engine.source import fetch_connection
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol.cluster import RECEIVE_S
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.fetch import PartitionData
from spark_runner.kafka_protocol.records import Record
from spark_runner.kafka_protocol.tcp_stream import PlainStream
from tests.wire.independent import compare
from tests.wire.proxy import Proxy
from tests.wire.reading import reading
from tests.wire.running import NOW, Running
from tests.wire.world import Flow, Side, unique

MB = 1 << 20
VERSION = 9
Read = tuple[ReceiveBuffer, list[PartitionData]] | None


def ask(connection: Connection) -> float:
    until = time.monotonic() + 20
    request = MetadataRequest(topics=None)
    connection.send(
        [messages.encode(request, VERSION, connection.next_correlation(), "test")], until
    )
    return until


@pytest.mark.parametrize("most", [1, 7, 100, 5_000, 1 << 30])
def test_a_reply_in_parts_is_the_reply_as_a_whole(source: Side, most: int) -> None:
    source.make(unique("parts"), 7)
    facts = connection_facts(source.client.spec)
    connection = Connection(facts, *facts.bootstrap[0]).connect(time.monotonic() + 20)
    try:
        whole = bytes(connection.receive(None, ask(connection)))
        until = ask(connection)
        room = memoryview(bytearray(len(whole)))
        parts = 1
        while (frame := connection.receive_part(room, until, most)) is None:
            assert connection.in_flight_requests == 1
            parts += 1
        # Behind the number of the question.
        assert bytes(frame[4:]) == whole[4:]
        assert frame.obj is room.obj
        assert parts == -(-len(whole) // most)
        assert connection.in_flight_requests == 0
    finally:
        connection.close()


class EngineEvents:
    """What the engine does, in order: parts that were read, replies that were whole, commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
        self.events: list[str] = []
        read, commit = FetchConnection.read, CopyLoop.commit
        monkeypatch.setattr(fetch_connection, "_PART", part)

        def reads(end: FetchConnection, now: float) -> Read:
            found = read(end, now)
            self.events.append("part" if found is None else "whole")
            return found

        def commits(engine: CopyLoop, **how: object) -> bool:
            done = commit(engine, **how)  # type: ignore[arg-type]
            if done:
                self.events.append("commit")
            return done

        monkeypatch.setattr(FetchConnection, "read", reads)
        monkeypatch.setattr(CopyLoop, "commit", commits)


def test_the_target_is_served_and_commits_come_while_a_long_reply_is_on_its_way(
    source: Side,
    target: Side,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = EngineEvents(monkeypatch, 20_000)
    topic = unique("slowly")
    source.make(topic, 3)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    for partition, _ in itertools.product(range(3), range(4)):
        source.write(topic, partition, [Record(0, NOW, b"k", os.urandom(MB // 4))])
    proxies[0].answer_rate = MB
    with Running(flow, topic) as running:
        running.caught_up()
    compare(flow, topic, remote)
    inside = [a == c == "part" and b == "commit" for a, b, c in triples(seen.events)]
    assert any(inside), seen.events


def triples(events: list[str]) -> zip[tuple[str, str, str]]:
    return zip(events, events[1:], events[2:], strict=False)


def test_connections_cut_between_two_parts(
    source: Side,
    target: Side,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = EngineEvents(monkeypatch, 3_000)
    chance = random.Random(5)
    topic = unique("torn")
    source.make(topic, 3)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    # A reply takes a tenth of a second, so that most cuts are in the middle of one.
    proxies[0].answer_rate = 6 * MB // 5
    with Running(flow, topic) as running:
        for _ in range(12):
            running.write(4, pause=0.005)
            chance.choice(proxies).cut()
        running.caught_up()
    assert sum(proxy.cuts for proxy in proxies) >= 12
    assert seen.events.count("part") > 3 * seen.events.count("whole") > 0
    compare(flow, topic, remote)


def test_a_source_is_not_given_up_for_what_others_took_while_its_reply_lay_ready(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_connection, "_PART", 10_000)
    topic = unique("ready")
    source.make(topic)
    flow = Flow(source, target)
    flow.add(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", os.urandom(100_000))])
    reader, _ = reading(flow)
    reader.send_requests(time.monotonic())
    (end,) = reader.connections()
    assert Selector().wait([end], 10) == [end]
    # As after a commit of a hundred seconds.
    end.sent_at -= 100
    began = time.monotonic()
    reader.receive(end, time.monotonic())
    assert end.buffer is not None
    reader.give_up_overdue(began)
    assert list(reader.connections()) == [end]
    # And the rest of a reply does not take for ever to come.
    reader.give_up_overdue(time.monotonic() + RECEIVE_S + 0.1)
    assert list(reader.connections()) == []


def test_what_was_read_ahead_of_a_source_does_not_keep_answers_of_the_target_waiting() -> None:
    """A connection with TLS has always something at hand in the middle of a reply."""
    ends: list[Any] = []
    with contextlib.ExitStack() as stack:
        for kind in (FetchConnection, ProduceConnection):
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs).sendall(b"abc")
            end: Any = kind.__new__(kind)
            end.transport = SimpleNamespace(stream=PlainStream(ours, "there"), in_flight_requests=1)
            ends.append(end)
        ends[0].transport.stream.receive_into(memoryview(bytearray(1)), time.monotonic() + 5)
        assert ends[0].transport.stream.pending()
        assert Selector().wait(ends, 0) == ends[::-1]
