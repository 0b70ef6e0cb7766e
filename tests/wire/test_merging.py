"""Small queued batches are merged: nothing is lost, and every buffer is released."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.batches.header_scan import SMALL, scan
from spark_runner.engine.batches.record_bytes import MAX_MERGED_BYTES
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import BatchStamper
from spark_runner.kafka_protocol.records import Record, decode_batch, encode_batch


def reply(first: int, batches: int) -> bytes:
    """`batches` batches of three records each, as in a log."""
    made = b""
    for number in range(batches):
        offset = first + 3 * number
        rows = [Record(offset + at, 1_000 + offset + at, b"k", b"v" * 90) for at in range(3)]
        made += encode_batch(rows, codec=compression.LZ4, base=offset)
    return made


def prepared(
    replies: list[int], merged_bytes: int
) -> tuple[list[PendingBatch], ReceiveBuffers, Partition]:
    """The batches sent for replies with these numbers of batches, each reply in its own buffer."""
    buffers = ReceiveBuffers(size=1 << 16, count=len(replies))
    pen = BatchStamper(transactional=True)
    pen.take(1, 0)
    preparer = BatchPreparer(
        pen, buffers, "target", merged_bytes=merged_bytes, stop_reading=lambda partition: None
    )
    partition = Partition("t", 0, "s.t")
    first = 0
    for batches in replies:
        buffer = buffers.take()
        assert buffer is not None
        data = reply(first, batches)
        buffer.view[: len(data)] = data
        assert scan(partition, buffer, 0, len(data), ()) == batches
        first += 3 * batches
    sent = []
    while (batch := preparer.next(partition)) is not None:
        sent.append(batch)
        partition.acknowledge(batch, first)
    return sent, buffers, partition


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(300, 20_000))
def test_merged_batches_hold_all_that_was_read_and_give_the_buffers_back(
    replies: list[int], merged_bytes: int
) -> None:
    sent, buffers, partition = prepared(replies, merged_bytes)
    found = [
        (offset, record.timestamp - 1_000)
        for batch in sent
        for offset, record in zip(
            batch.offsets(), decode_batch(batch.memory[batch.at :]), strict=True
        )
    ]
    assert found == [(at, at) for at in range(3 * sum(replies))]
    for batch in sent:
        if batch.buffer is not None:
            buffers.release(batch.buffer)
    assert (buffers.taken, partition.queued_bytes, partition.acknowledged_offset) == (
        0,
        0,
        3 * sum(replies),
    )


def test_what_waits_in_two_replies_becomes_one_batch() -> None:
    sent, buffers, _ = prepared([5, 5], 1 << 18)
    assert [(batch.repack_reason, batch.records) for batch in sent] == [(SMALL, 30)]
    assert buffers.taken == 0


@pytest.mark.parametrize("holed", [False, True], ids=["whole", "with holes"])
def test_batches_that_hold_a_thousand_times_what_they_weigh_are_not_all_put_together(
    holed: bool,
) -> None:
    """Records that are all alike: eighty such batches, 20 KB in all, hold 80 MB."""
    buffers = ReceiveBuffers(size=1 << 16, count=1)
    pen = BatchStamper(transactional=True)
    pen.take(1, 0)
    preparer = BatchPreparer(
        pen, buffers, "target", merged_bytes=1 << 18, stop_reading=lambda partition: None
    )
    partition, buffer = Partition("t", 0, "s.t"), buffers.take()
    assert buffer is not None
    wanted, data = [], b""
    for number in range(80):
        offsets = [8 * number + (at + (at > 1 and holed)) for at in range(4)]
        rows = [Record(offset, 1_000, b"k", bytes(1 << 18)) for offset in offsets]
        data += encode_batch(rows, codec=compression.ZSTD, base=8 * number)
        wanted += offsets
    buffer.view[: len(data)] = data
    assert scan(partition, buffer, 0, len(data), ()) == 80
    found, batches = [], 0
    tracemalloc.start()
    while (batch := preparer.next(partition)) is not None:
        held = sum(len(record.value or b"") for record in decode_batch(batch.memory))
        assert held <= MAX_MERGED_BYTES
        found += batch.offsets()
        batches += 1
        partition.acknowledge(batch, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == wanted
    assert batches < 10, "they are still put together"
    assert peak < 4 * MAX_MERGED_BYTES
    assert (buffers.taken, partition.queued_bytes) == (0, 0)


def test_a_tally_taken_while_a_transaction_is_open_counts_every_record_once() -> None:
    """The engine tells its figures at any moment, also between what has landed and its commit."""
    lane_counters, partitions = LaneCounters(), []
    for replies in ([5, 5], [1]):
        sent, _, partition = prepared(replies, 1 << 18)
        partitions.append(partition)
        for batch in sent:
            if batch.repack_reason:
                lane_counters.count(batch)
    open_still = lane_counters.lanes(partitions)
    assert [(row.lane, row.why, row.batches, row.records) for row in open_still] == [
        ("raw", "", 1, 3),
        ("repack", SMALL, 1, 30),
    ]
    for partition in partitions:
        partition.count_acknowledged()
    assert lane_counters.lanes(partitions) == open_still
