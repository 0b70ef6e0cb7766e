"""A partition that is read again from an earlier offset misses no record."""

from __future__ import annotations

import time

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.poller import Selector
from spark_runner.engine.source.reader import SourceReader
from spark_runner.kafka_protocol.records import Record
from tests.wire.reading import reading
from tests.wire.world import Flow, Side, unique


def firsts(partition: Partition) -> list[int]:
    return [batch.first for batch in partition.queue]


def take(reader: SourceReader, partition: Partition, until: int) -> None:
    """Read replies until this offset."""
    deadline = time.monotonic() + 20
    while partition.next_fetch < until:
        assert time.monotonic() < deadline, firsts(partition)
        reader.send_requests(time.monotonic())
        for connection in Selector().wait(list(reader.connections()), 0.2):
            reader.receive(connection, time.monotonic())  # type: ignore[arg-type]


def test_a_reply_that_was_asked_for_before_the_partition_was_left_makes_no_hole(
    source: Side, target: Side
) -> None:
    topic = unique("again")
    source.make(topic)
    flow = Flow(source, target)
    flow.add(topic)
    reader, partition = reading(flow)
    for value in (b"0", b"1"):
        source.write(topic, 0, [Record(0, 1, b"k", value)])
    take(reader, partition, 2)
    reader.send_requests(time.monotonic())
    # The reply to that request comes while nobody listens: a commit waits for the target.
    source.write(topic, 0, [Record(0, 1, b"k", b"2")])
    (connection,) = reader.connections()
    assert Selector().wait([connection], 10) == [connection]
    # The partition was stuck and gave back what was not sent, and it is well again by now.
    reader.stop_reading(partition)
    partition.drop_unstamped()
    partition.read_again_from(0)
    reader.resume_reading(partition)
    take(reader, partition, 3)
    assert firsts(partition) == [0, 1, 2]
