"""A lookup at a silent source broker delays a slice for a moment, and not again soon."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.error_codes import Code
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.source import errors
from spark_runner.engine.source.errors import SourceErrors
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import NOW
from tests.wire.world import Side, soon, unique

SILENT = 1000
PARTITIONS = 5


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """As of a host that hangs: nothing is refused, nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()


def judged(
    source_errors: SourceErrors, partitions: list[Partition], number: int
) -> tuple[list[StopReason | None], float]:
    """What is said of each, and how long all of that took in seconds."""
    began = time.monotonic()
    found = [
        source_errors.stop_reason_of(partition, number, time.monotonic())
        for partition in partitions
    ]
    return found, time.monotonic() - began


def test_partitions_out_of_range_at_a_silent_broker_hold_up_nobody(
    target: Side, silent: tuple[str, int]
) -> None:
    topic = unique("looks")
    leader = target.make(topic).leaders[0].node
    target.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    client = ClusterClient(target.spec)
    client.open(soon())
    client.brokers[SILENT] = silent
    source_errors = SourceErrors(client)
    partitions = [Partition(topic, partition, "s.t", position=7) for partition in range(PARTITIONS)]
    for partition in partitions:
        partition.assign_source(SILENT, -1)
    try:
        found, seconds = judged(source_errors, partitions, Code.OFFSET_OUT_OF_RANGE)
        assert found == [None] * PARTITIONS
        assert 0.5 < seconds < 1.5
        # Asked for again in a moment, as for as long as it does not say.
        assert judged(source_errors, partitions, Code.OFFSET_OUT_OF_RANGE)[1] < 0.1
        partitions[0].assign_source(leader, -1)
        [stop_reason], seconds = judged(source_errors, partitions[:1], Code.OFFSET_OUT_OF_RANGE)
        assert stop_reason is not None
        assert "now ends at 1, before the position 7" in stop_reason.reason
        assert seconds < 0.5
    finally:
        client.close()


def test_a_topic_whose_cluster_says_nothing_is_not_looked_for_once_for_each_partition(
    silent: tuple[str, int],
) -> None:
    host, port = silent
    client = ClusterClient(ClusterSpec(alias="one", bootstrap_servers=f"{host}:{port}"))
    source_errors = SourceErrors(client)
    partitions = [Partition("t", partition, "s.t") for partition in range(PARTITIONS)]
    found, seconds = judged(source_errors, partitions, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert found == [None] * PARTITIONS
    assert seconds < 1.5
    client.close()


def test_a_broker_that_is_only_slow_is_given_more_time_the_next_time(
    silent: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a long line it takes some time to be logged in at."""
    monkeypatch.setattr(errors, "LOOKUP_S", 0.1)
    monkeypatch.setattr(errors, "MAX_LOOKUP_S", 0.4)
    monkeypatch.setattr(errors, "SHARE", 1.0)
    client = ClusterClient(ClusterSpec(alias="one", bootstrap_servers="127.0.0.1:1"))
    client.brokers = {SILENT: silent}
    source_errors = SourceErrors(client)
    partition = Partition("t", 0, "s.t", position=7)
    partition.assign_source(SILENT, -1)
    waits = []
    for _ in range(4):
        _, seconds = judged(source_errors, [partition], Code.OFFSET_OUT_OF_RANGE)
        waits.append(round(seconds, 1))
        time.sleep(seconds + 0.02)
    assert waits == [0.1, 0.2, 0.4, 0.4]
    client.close()
