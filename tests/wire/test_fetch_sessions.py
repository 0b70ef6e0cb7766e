"""Fetch sessions (KIP-227) that a broker has dropped, counts differently, or refuses."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.connection import BrokerConnection
from spark_runner.engine.model import broker_availability
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.fetch import FetchSession
from spark_runner.kafka_protocol.records import Record
from tests.wire.running import NOW, PARTITIONS, Running
from tests.wire.world import Flow, Side, bare, soon, unique


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """What the broker said of the engine's sessions; 0 with a session, -1 without one."""
    found: Counter[int] = Counter()
    plain = FetchSession.answered

    def answered(session: FetchSession, error: int, number: int) -> bool:
        found[error or (0 if number else -1)] += 1
        return plain(session, error, number)

    monkeypatch.setattr(FetchSession, "answered", answered)
    return found


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ("_session", Code.FETCH_SESSION_ID_NOT_FOUND),
        ("_epoch", Code.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_session_that_the_broker_does_not_know_is_begun_anew(
    source: Side,
    target: Side,
    met: Counter[int],
    monkeypatch: pytest.MonkeyPatch,
    member: str,
    code: Code,
) -> None:
    plain = FetchSession.request
    asked = Counter[str]()

    def request(session: FetchSession, correlation: int) -> bytes:
        """Every fifth one names a session, or a count, that the broker does not have."""
        if threading.current_thread().name == "engine" and session._epoch:
            asked["times"] += 1
            if asked["times"] % 5 == 0:
                setattr(session, member, getattr(session, member) + 7)
        return plain(session, correlation)

    monkeypatch.setattr(FetchSession, "request", request)
    topic = unique("sessions")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    with Running(flow, topic) as running:
        running.write(60)
        running.caught_up()
    assert met[code] > 3, met
    for partition in range(PARTITIONS):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))


def test_a_single_look_takes_no_place_in_the_broker_s_memory(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker keeps a thousand sessions for all its clients, each for two minutes at least."""
    topic = unique("looked")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    flow = Flow(source, target)
    flow.add(topic)
    flow.copy()
    plain, seen = BrokerConnection.call, []

    def noted(self: BrokerConnection, request: Any, *args: Any, **kwargs: Any) -> Any:
        reply = plain(self, request, *args, **kwargs)
        if isinstance(request, FetchRequest):
            seen.append(reply.session_id)
        return reply

    monkeypatch.setattr(BrokerConnection, "call", noted)
    # The commit is readable a moment after its response.
    until, known = soon(), {}
    while (topic, 0) not in known and time.monotonic() < until:
        known = PositionReader(target.client, flow.positions_topic).read(until)
    assert known[topic, 0].position == 1
    assert seen
    assert set(seen) == {0}


def test_a_broker_that_refuses_every_fetch_is_given_up_in_words(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_availability, "GIVE_UP_AFTER_S", 1.0)
    topic = unique("refused")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    flow = Flow(source, target)
    flow.add(topic)
    plain = fetch.read_reply

    def refused(frame: memoryview, version: int) -> tuple[int, fetch.FetchResponse]:
        reply = plain(frame, version)[1]
        return 0, reply._replace(error=int(Code.UNKNOWN_SERVER_ERROR), partitions=[])

    with monkeypatch.context() as patch:
        patch.setattr(fetch, "read_reply", refused)
        result, _ = flow.copy(seconds=8)
    assert (result.ended_because, result.code) == ("failed", "fetch_refused"), result
    assert "the broker rejects each fetch with UNKNOWN_SERVER_ERROR" in result.reason
    flow.copy()


def test_without_a_session_every_partition_gets_its_turn(
    odd_side: Side, target: Side, met: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("roomless")
    odd_side.make(topic, 4)
    for partition in range(4):
        for at in range(8):
            odd_side.write(topic, partition, [Record(0, NOW, b"%d" % at, bytes(450_000))])
    flow = Flow(odd_side, target, **{"consumer.fetch.max.bytes": "1000000"})
    remote = flow.add(topic)
    turns: list[int] = []
    plain = FetchConnection.read

    def read(connection: FetchConnection, *facts: Any) -> Any:
        buffer, rows = plain(connection, *facts)
        turns.extend(row.partition for row in rows if row.stop > row.start)
        return buffer, rows

    monkeypatch.setattr(FetchConnection, "read", read)
    result, _ = flow.copy()
    assert (result.ended_because, result.errors) == ("stop", ()), result
    assert set(met) == {-1}, "the broker kept a session"
    # A reply is full after one partition, of which it holds a quarter: the next one begins with
    # another.
    assert set(turns[:4]) == {0, 1, 2, 3}, turns
    for partition in range(4):
        assert bare(target.read(remote, partition)) == bare(odd_side.read(topic, partition))
