"""A stalled partition is read again, whatever happens to its last batch."""

from __future__ import annotations

import time

import pytest

from mirrors.kafka.error_codes import Code
from spark_runner.engine.model.partition import Partition
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW, WithheldBatches
from tests.wire.world import Flow, Side, bare, unique

STALL_S = 1.5


def test_a_stalled_partition_whose_batch_is_then_rejected_is_read_again(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("stalled")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    source.write(topic, 0, [Record(at, NOW, b"k", BIG) for at in range(3)])
    answered: list[int] = []
    stalled: list[bool] = []
    began: list[float] = []

    def is_kept(partition: Partition) -> bool:
        if partition.is_internal or Code.MESSAGE_TOO_LARGE in answered:
            return False
        stalled.append(partition.is_stalled)
        return True

    def code() -> int:
        now = time.monotonic()
        began.append(now)
        short = now < began[0] + STALL_S
        answered.append(Code.NOT_ENOUGH_REPLICAS if short else Code.MESSAGE_TOO_LARGE)
        return answered[-1]

    WithheldBatches(monkeypatch, is_kept, code)
    result, _ = flow.copy(seconds=10)
    assert stalled[-1], "nothing was tested: the rejected batch was not that of a stall"
    assert answered[-1] == Code.MESSAGE_TOO_LARGE, "nothing was tested"
    assert result.ended_because == "stop", result
    assert bare(target.read(remote, 0)) == bare(source.read(topic, 0))
