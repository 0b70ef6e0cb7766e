"""A slow target and a fast source: memory for unwritten batches stays bounded."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from spark_runner.engine import setup
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.kafka_protocol.records import Record
from tests.wire.proxy import Proxy
from tests.wire.running import NOW, Running
from tests.wire.world import Flow, Side, bare, unique

MB = 1 << 20
# What the loop needs for itself, and the proxy in the same process.
OWN = 2 * MB


class Memory:
    """Of a slice: its buffers, and what Python allocates beside them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[ReceiveBuffers] = []
        self.all_taken = False
        self._peak = 0
        plain = setup.buffers_for

        def buffers_for(*args: Any, **named: Any) -> ReceiveBuffers:
            self.made.append(plain(*args, **named))
            return self.made[-1]

        patch.setattr(setup, "buffers_for", buffers_for)

    @property
    def buffers(self) -> int:
        (buffers,) = self.made
        return buffers.size * len(buffers._all)

    def watch(self, seconds: float) -> None:
        """Look for so long; what was allocated before is not counted."""
        (buffers,) = self.made
        tracemalloc.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.all_taken = self.all_taken or buffers.taken == len(buffers._all)
            time.sleep(0.01)
        self.beside = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    yield Memory(monkeypatch)
    tracemalloc.stop()


def fill(source: Side, topic: str, partitions: int, batches: int, size: int) -> None:
    for at in range(batches):
        for partition in range(partitions):
            source.write(topic, partition, [Record(0, NOW, b"%d" % at, os.urandom(size))])


def check(flow: Flow, topic: str, remote: str, partitions: int) -> None:
    for partition in range(partitions):
        copied = bare(flow.target.read(remote, partition))
        assert copied == bare(flow.source.read(topic, partition))


@pytest.mark.parametrize("codec", ["producer", "zstd"], ids=["raw", "repacked"])
def test_a_slow_target_makes_the_source_wait_within_buffer_memory(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], memory: Memory, codec: str
) -> None:
    topic = unique("slow")
    source.make(topic, 3)
    flow = Flow(
        source, target, commit_interval_ms="200", **{"producer.buffer.memory": str(12 * MB)}
    )
    remote = flow.add(topic, compression_type=codec)
    proxies[1].rate = 2 * MB
    with Running(flow, topic) as running:
        running.write(1)
        running.caught_up()
        fill(source, topic, 3, 10, MB - 10_000)
        memory.watch(1.0)
        proxies[1].rate = 0
        running.caught_up()
    assert memory.all_taken, "the source was never faster"
    assert memory.buffers <= 12 * MB
    # Rebuilt batches occupy memory beside the buffers, at most as much as those.
    assert memory.beside < OWN + (12 * MB if codec == "zstd" else 0)
    check(flow, topic, remote, 3)


def test_batches_larger_than_a_buffer_are_counted_as_buffers(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], memory: Memory
) -> None:
    topic = unique("stray")
    size = 5 * MB // 2
    source.make(topic, 8, max_message_bytes="4000000")
    flow = Flow(
        source,
        target,
        commit_interval_ms="200",
        **{"producer.buffer.memory": str(6 * MB)},
    )
    remote = flow.add(topic, max_message_bytes="4000000")
    with Running(flow, topic) as running:
        source.write(topic, 0, [Record(0, NOW, b"k", b"v")])
        running.caught_up()
        proxies[1].mode = "hold"
        fill(source, topic, 8, 2, size)
        memory.watch(1.0)
        proxies[1].mode = "pass"
        running.caught_up()
    (buffers,) = memory.made
    assert memory.beside < OWN + len(buffers._all) * (size + 100_000)
    check(flow, topic, remote, 8)
