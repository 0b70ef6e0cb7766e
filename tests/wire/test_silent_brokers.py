"""Brokers that accept connections and do not respond: given up with a reason, then replicated
exactly."""

from __future__ import annotations

import threading
import time

import pytest

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.engine import epoch, flush
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model import broker_availability
from spark_runner.engine.source import leaders as sources
from spark_runner.engine.target import leaders
from spark_runner.ipc.messages import SliceResult
from tests.wire.proxy import Mode, Proxy
from tests.wire.running import PARTITIONS, Running
from tests.wire.world import Driver, Flow, Side, bare, unique

SHORT = {"producer.request.timeout.ms": "1000", "consumer.request.timeout.ms": "1000"}
# What a slice may take beyond its end: a look for leaders, a connection, a commit, an abort.
MORE_S = 10.0

either_side = pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
# What is said goes on to the broker and no answer comes back, or nothing is even heard.
each_silence = pytest.mark.parametrize(
    ("side", "silence"),
    [(0, "deaf"), (1, "hold")],
    ids=["source deaf", "target silent"],
)


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sources, leaders):
        monkeypatch.setattr(module, "_LOOKUP_S", 0.5)
    monkeypatch.setattr(epoch, "ABORT_S", 0.5)
    monkeypatch.setattr(flush, "_URGENT_S", 1.0)


def flow_of(source: Side, target: Side) -> tuple[Flow, str, str]:
    topic = unique("silent")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="50", **SHORT)
    return flow, topic, flow.add(topic)


def is_same(flow: Flow, topic: str, remote: str) -> bool:
    return all(
        bare(flow.target.read(remote, partition)) == bare(flow.source.read(topic, partition))
        for partition in range(PARTITIONS)
    )


def ended(running: Running, seconds: float) -> SliceResult:
    until = time.monotonic() + seconds
    while running.result is None:
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.05)
    return running.result


@each_silence
def test_a_broker_that_is_silent_for_a_while_is_asked_again_on_a_new_connection(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], side: int, silence: Mode
) -> None:
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic) as running:
        running.write(2)
        running.caught_up()
        # Connections that were open, and each one that is made meanwhile.
        proxies[side].mode = silence
        running.write(2)
        time.sleep(1.8)
        proxies[side].mode = "pass"
        running.write(2)
        running.caught_up()
    assert is_same(flow, topic, remote)


@pytest.mark.parametrize(("side", "silence"), [(0, "hold"), (1, "deaf")])
def test_a_broker_that_stays_silent_is_given_up_in_words_and_copied_on_once_it_answers(
    source: Side,
    target: Side,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
    side: int,
    silence: Mode,
) -> None:
    monkeypatch.setattr(broker_availability, "GIVE_UP_AFTER_S", 1.0)
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic) as running:
        running.write(2)
        running.caught_up()
        proxies[side].mode = silence
        running.write(2)
        result = ended(running, 1.0 + MORE_S)
    # What was said to a deaf broker reaches it now, from a producer that is gone.
    proxies[side].mode = "pass"
    assert (result.ended_because, result.code) == ("failed", "timeout"), result
    alias = (flow.alias, target.spec.alias)[side]
    assert result.reason.startswith(f"Cluster {alias}")
    said = ("no response in time", "no response for", "not acknowledged in time")
    assert any(words in result.reason for words in said), result.reason
    flow.copy()
    assert is_same(flow, topic, remote)


@either_side
def test_an_epoch_ends_in_time_although_a_broker_is_silent(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], side: int
) -> None:
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic, seconds=2) as running:
        running.write(2)
        running.caught_up()
        proxies[side].mode = "hold"
        running.write(2)
        result = ended(running, 2 + MORE_S)
    proxies[side].mode = "pass"
    if side == 0:
        assert result.ended_because == "deadline", result
    else:
        assert (result.ended_because, result.code) == ("failed", "timeout"), result
        assert "Nothing was committed" in result.reason or "no response in time" in result.reason
    flow.copy()
    assert is_same(flow, topic, remote)


@either_side
def test_an_epoch_does_not_begin_with_a_broker_that_is_silent(
    source: Side,
    target: Side,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
    side: int,
) -> None:
    monkeypatch.setattr(epoch, "CONNECT_S", 1.0)
    flow, _, _ = flow_of(source, target)
    proxies[side].mode = "deaf"
    monkeypatch.setattr(threading.current_thread(), "name", "engine")
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="no response in time") as error:
        RawCopier().run(flow.work(), Driver())  # type: ignore[arg-type]
    assert error.value.code == "timeout"
    assert time.monotonic() - began < 1.0 + MORE_S
