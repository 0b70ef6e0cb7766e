"""A partition is rejected for a moment, recovers under load, and is rejected again."""

from __future__ import annotations

import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model import target_settings
from spark_runner.engine.model.partition import Partition
from spark_runner.kafka_protocol.records import Record
from tests.wire.proxy import Proxy
from tests.wire.running import Running
from tests.wire.stops import BIG, NOW, WithheldBatches
from tests.wire.world import Flow, Side, bare, unique

GIVE_UP_S = 0.5


@pytest.mark.parametrize("newest", [13, 11])
def test_only_the_time_since_a_batch_of_it_landed_counts_against_it(
    source: Side,
    target: Side,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
    newest: int,
) -> None:
    """With a backlog something of it always flies, up to a commit, which may be far away."""
    monkeypatch.setattr(target_settings, "_GIVE_UP_AFTER_S", GIVE_UP_S)
    topic = unique("again")
    source.make(topic)
    for _ in range(500):
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 2)
    flow = Flow(source, target, commit_interval_ms="20000", producer_max_request_size=str(len(BIG)))
    remote = flow.add(topic)
    proxies[1].rate = 6 << 20
    refused_at: list[float] = []
    landed = 0

    def is_refused(partition: Partition) -> bool:
        """Once among others that fly, and once long after that."""
        nonlocal landed
        now = time.monotonic()
        if partition.topic != topic or len(partition.in_flight) < 3 or len(refused_at) > 1:
            return False
        if refused_at and now - refused_at[0] < 2 * GIVE_UP_S:
            landed = partition.records
            return False
        refused_at.append(now)
        return True

    WithheldBatches(monkeypatch, is_refused)
    with Running(flow, topic, copier=RawCopier(newest_produce=newest)) as running:
        running.caught_up(20)
    assert running.result is not None
    assert (running.result.ended_because, running.result.errors) == ("stop", ())
    assert len(refused_at) == 2
    assert landed > 50, "nothing landed in between"
    assert bare(target.read(remote)) == bare(source.read(topic))
