"""A partition that waits for the target, beside an idle one: it is not held up by its long poll."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from spark_runner.engine.poller import Selector
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.engine.source.reader import SourceReader
from spark_runner.kafka_protocol.records import Record
from tests.wire.reading import reading_all
from tests.wire.world import Flow, Side, unique

USUAL_MS = 500
QUEUE = 1 << 20


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the broker might wait for records, by request."""
    found: list[int] = []
    send = FetchConnection.send_fetch

    def recorded(self: FetchConnection, *args: Any, max_wait_ms: int, **limits: Any) -> None:
        found.append(max_wait_ms)
        send(self, *args, max_wait_ms=max_wait_ms, **limits)

    monkeypatch.setattr(FetchConnection, "send_fetch", recorded)
    return found


def read(reader: SourceReader, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        reader.send_requests(time.monotonic())
        for connection in Selector().wait(list(reader.connections()), 0.2):
            reader.receive(connection, time.monotonic())  # type: ignore[arg-type]


def test_the_poll_of_an_idle_partition_is_short_while_another_waits_for_the_target(
    source: Side, target: Side, waits: list[int]
) -> None:
    topic = unique("skewed")
    source.make(topic, 2)
    for _ in range(9):
        source.write(topic, 0, [Record(0, 1, b"k", os.urandom(900_000))])
    flow = Flow(source, target)
    flow.add(topic)
    reader, (hot, idle) = reading_all(flow, queue_bytes=QUEUE)
    # Two replies fill its queue. Then only the idle one is fetched. If the target never catches up,
    # polls become long again.
    read(reader, lambda: len(waits) >= 10)
    assert waits == [USUAL_MS, USUAL_MS, 8, 16, 32, 64, 128, 256, USUAL_MS, USUAL_MS]
    assert hot.queued_bytes > QUEUE

    # The target has caught up: the partition is read on, and the next poll is short.
    waits.clear()
    for batch in hot.queue:
        assert batch.buffer is not None
        reader._buffers.release(batch.buffer)
    hot.drop_unstamped()
    read(reader, lambda: hot.queued_bytes > QUEUE and len(waits) >= 4)
    assert waits[:4] == [USUAL_MS, USUAL_MS, 8, 16]
    assert idle.next_fetch == 0
