"""Behind a transaction's end nothing is sent for a moment: until its markers are written."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.target.produce_connection import Pipe
from spark_runner.engine.target.transaction import Lull
from spark_runner.engine.target.writer import Outlet
from spark_runner.kafka_protocol.records import Record
from tests.wire.independent import compare
from tests.wire.running import NOW, Running
from tests.wire.world import Flow, Side, unique

USUAL_S, LONGEST_S = 0.002, 0.01


def test_it_lasts_two_milliseconds_from_the_end_on() -> None:
    lull = Lull()
    lull.begin(100.0)
    assert lull.until == 100.0 + USUAL_S


def test_it_grows_where_the_broker_asks_its_coordinator_again_and_shrinks_where_it_does_not() -> (
    None
):
    lull = Lull()
    lull.answered(0.003)
    for _ in range(4):
        lull.answered(0.024)
    assert lull.length_s == pytest.approx(0.006)
    for _ in range(50):
        lull.answered(0.003)
    assert lull.length_s == USUAL_S


def test_a_distant_target_whose_answers_all_take_long_is_not_waited_for() -> None:
    lull = Lull()
    for _ in range(50):
        lull.answered(0.150)
    assert lull.length_s == USUAL_S


@given(st.lists(st.floats(0.0, 60.0)))
def test_whatever_answers_take_it_is_short(took: list[float]) -> None:
    lull = Lull()
    for seconds in took:
        lull.answered(seconds)
        assert USUAL_S <= lull.length_s <= LONGEST_S


def test_the_engine_sends_nothing_in_it_and_wakes_at_its_end(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets: list[Outlet] = []
    sent: list[float] = []
    judged: list[float] = []
    ends = woken = 0
    wakes_at, send = Outlet.wakes_at, Pipe.send
    begin, answered = Lull.begin, Lull.answered

    def begins(lull: Lull, now: float) -> None:
        nonlocal ends
        ends += 1
        begin(lull, now)

    def hears(lull: Lull, took_s: float) -> None:
        judged.append(took_s)
        answered(lull, took_s)

    def wakes(outlet: Outlet, now: float) -> float:
        nonlocal woken
        outlets[:] = [outlet]
        moment = wakes_at(outlet, now)
        lull = outlet._lull.until
        if now < lull and any(pipe.ready for pipe in outlet._homes.pipes.values()):
            assert moment <= lull
            woken += 1
        return moment

    def sends(pipe: Pipe, flight: object, now: float) -> None:
        if outlets:
            assert now >= outlets[0]._lull.until
            sent.append(now)
        send(pipe, flight, now)  # type: ignore[arg-type]

    monkeypatch.setattr(Lull, "begin", begins)
    monkeypatch.setattr(Lull, "answered", hears)
    monkeypatch.setattr(Outlet, "wakes_at", wakes)
    monkeypatch.setattr(Pipe, "send", sends)
    topic = unique("lull")
    source.make(topic, 3)
    flow = Flow(source, target, commit_interval_ms="20")
    remote = flow.add(topic)
    for _ in range(150):
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
