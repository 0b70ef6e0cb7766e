"""A slow connection: a backlog is replicated, and commits and stops are on time."""

from __future__ import annotations

import itertools
import os
import time

from spark_runner.engine.source.fetch_connection import FetchSize
from spark_runner.kafka_protocol.records import Record
from tests.wire.proxy import Proxy
from tests.wire.running import NOW, Running
from tests.wire.world import Flow, Side, bare, unique

MB = 1 << 20
# A stopping slice has this long for the requests in flight.
SOON_S = 3.0


def backlog(source: Side, partitions: int, batches: int) -> str:
    """Batches of a megabyte each."""
    topic = unique("narrow")
    source.make(topic, partitions)
    for _ in range(batches):
        for partition in range(partitions):
            source.write(topic, partition, [Record(0, NOW, b"k", os.urandom(MB - 10_000))])
    return topic


def check(flow: Flow, topic: str, remote: str, partitions: int) -> None:
    for partition in range(partitions):
        copied = bare(flow.target.read(remote, partition))
        assert copied == bare(flow.source.read(topic, partition))


def longest_pause(running: Running) -> float:
    """Between two commits, in seconds."""
    moments = [figures.as_of for figures in running.driver.figures if figures.partitions]
    pauses = [after - before for before, after in itertools.pairwise(moments)]
    return max(pauses, default=0) / 1000


def test_a_backlog_crosses_a_slow_connection_to_the_source(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    """A full reply would exceed the timeout each time."""
    topic = backlog(source, 17, 1)
    flow = Flow(source, target)
    remote = flow.add(topic)
    proxies[0].answer_rate = 6 * MB // 5
    with Running(flow, topic) as running:
        running.caught_up(45)
    assert longest_pause(running) < SOON_S
    check(flow, topic, remote, 17)


def test_commits_and_a_stop_are_on_time_over_a_slow_connection_to_the_target(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    topic = backlog(source, 8, 4)
    flow = Flow(source, target)
    flow.add(topic)
    proxies[1].rate = 2 * MB
    with Running(flow, topic) as running:
        time.sleep(10)
        told = time.monotonic()
    result = running.result
    assert result is not None
    assert (result.ended_because, result.errors) == ("stop", ()), result
    assert time.monotonic() - told < SOON_S
    assert longest_pause(running) < SOON_S
    assert result.bytes > 10 * MB, "the connection was not idle either"


def test_what_is_asked_for_is_soon_all_on_a_fast_connection_and_half_a_second_s_on_a_slow_one() -> (
    None
):
    stride, asked = FetchSize(16 << 20), []
    for _ in range(7):
        asked.append(stride.size)
        stride.record_response(stride.size, 0.01)
    assert asked == [(256 << 10) << at for at in range(7)]
    for _ in range(20):
        stride.record_response(100, 9.0)
    assert stride.size == 16 << 20, "a small answer says nothing of the connection"
    for _ in range(20):
        stride.record_response(stride.size, stride.size / MB)
    assert stride.size == MB // 2
    for _ in range(20):
        stride.record_response(stride.size, stride.size / 1000)
    assert stride.size == 64 << 10
    assert FetchSize(4096).size == 4096
