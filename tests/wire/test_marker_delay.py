"""After a transaction nothing is sent for a moment, until its markers are written."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.transaction import MarkerDelay
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.kafka_protocol.records import Record
from tests.wire.independent import compare
from tests.wire.running import NOW, Running
from tests.wire.world import Flow, Side, unique

USUAL_S, LONGEST_S = 0.002, 0.01


def test_it_lasts_two_milliseconds_from_the_end_on() -> None:
    delay = MarkerDelay()
    delay.begin(100.0)
    assert delay.until == 100.0 + USUAL_S


def test_it_grows_where_the_broker_asks_its_coordinator_again_and_shrinks_where_it_does_not() -> (
    None
):
    delay = MarkerDelay()
    delay.answered(0.003)
    for _ in range(4):
        delay.answered(0.024)
    assert delay.length_s == pytest.approx(0.006)
    for _ in range(50):
        delay.answered(0.003)
    assert delay.length_s == USUAL_S


def test_a_distant_target_whose_answers_all_take_long_is_not_waited_for() -> None:
    delay = MarkerDelay()
    for _ in range(50):
        delay.answered(0.150)
    assert delay.length_s == USUAL_S


@given(st.lists(st.floats(0.0, 60.0)))
def test_whatever_answers_take_it_is_short(took: list[float]) -> None:
    delay = MarkerDelay()
    for seconds in took:
        delay.answered(seconds)
        assert USUAL_S <= delay.length_s <= LONGEST_S


def test_the_engine_sends_nothing_in_it_and_wakes_at_its_end(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[TargetWriter] = []
    sent: list[float] = []
    judged: list[float] = []
    ends = woken = 0
    wakes_at, send = TargetWriter.wakes_at, ProduceConnection.send
    begin, answered = MarkerDelay.begin, MarkerDelay.answered

    def begins(delay: MarkerDelay, now: float) -> None:
        nonlocal ends
        ends += 1
        begin(delay, now)

    def hears(delay: MarkerDelay, took_s: float) -> None:
        judged.append(took_s)
        answered(delay, took_s)

    def wakes(writer: TargetWriter, now: float) -> float:
        nonlocal woken
        writers[:] = [writer]
        moment = wakes_at(writer, now)
        delay = writer._marker_delay.until
        if now < delay and any(
            connection.ready for connection in writer._leaders.connections.values()
        ):
            assert moment <= delay
            woken += 1
        return moment

    def sends(connection: ProduceConnection, batches: object, now: float) -> None:
        if writers:
            assert now >= writers[0]._marker_delay.until
            sent.append(now)
        send(connection, batches, now)  # type: ignore[arg-type]

    monkeypatch.setattr(MarkerDelay, "begin", begins)
    monkeypatch.setattr(MarkerDelay, "answered", hears)
    monkeypatch.setattr(TargetWriter, "wakes_at", wakes)
    monkeypatch.setattr(ProduceConnection, "send", sends)
    topic = unique("lull")
    source.make(topic, 3)
    flow = Flow(source, target, commit_interval_ms="20")
    remote = flow.add(topic)
    for _ in range(50):
        for partition in range(3):
            source.write(topic, partition, [Record(0, NOW, b"k", os.urandom(200_000))])
    with Running(flow, topic) as running:
        running.caught_up()
    compare(flow, topic, remote)
    assert sent
    assert woken
    # Of one broker, with two connections at the most; and an answer takes time.
    assert 0 < len(judged) <= 2 * ends
    assert min(judged) > 0
