"""The leader epoch stored with a position is that of the record before it (KIP-320).

With an older epoch the broker would report a truncation that did not happen: that epoch ended
before the position. So the epoch follows across dropped and merged batches.
"""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.batches import repack
from spark_runner.engine.batches.header_scan import scan
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol.batch_header import CONTROL, TRANSACTIONAL
from spark_runner.kafka_protocol.records import Record, encode_batch
from spark_runner.native.crc32c import crc32c

_EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT = 12, 17, 21

steps = st.lists(
    st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 2)), min_size=1, max_size=8
)


def log_of(plan: list[tuple[int, bool, int]]) -> tuple[bytearray, list[tuple[int, int]]]:
    """Batches one after another: (records, whether a marker, how many epochs later)."""
    log, offset, epoch, known = bytearray(), 0, 1, []
    for count, marker, later in plan:
        epoch += later
        rows = [Record(offset + at, 1, b"\0\0\0\1", b"v") for at in range(1 if marker else count)]
        batch = encode_batch(rows, base=offset)
        struct.pack_into(">i", batch, _EPOCH_AT, epoch)
        if marker:
            struct.pack_into(">h", batch, _ATTRIBUTES_AT, CONTROL | TRANSACTIONAL)
            struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_ATTRIBUTES_AT:])))
        known.append((offset + len(rows), epoch))
        offset += len(rows)
        log += batch
    return log, known


def epoch_before(known: list[tuple[int, int]], position: int) -> int:
    return next(epoch for end, epoch in known if position <= end)


@given(steps, st.booleans(), st.booleans())
def test_the_epoch_never_ended_before_the_position(
    plan: list[tuple[int, bool, int]], merged: bool, in_two: bool
) -> None:
    log, known = log_of(plan)
    partition = Partition("t", 0, "a.t")
    view = memoryview(log)
    buffer = ReceiveBuffer(view)
    scan(partition, buffer, 0, len(view), [])
    if merged and partition.queue:
        limit = 150 if in_two else 0
        built, _ = repack.rebuild(list(partition.queue), TopicSettings(most_bytes=limit))
        partition.drop_unstamped()
        partition.put_first(built)
    base = 0
    while partition.queue:
        batch = partition.take_first()
        partition.acknowledge(batch, base)
        base += batch.records
        assert partition.acknowledged_epoch >= epoch_before(known, partition.acknowledged_offset)
    assert partition.acknowledged_offset == known[-1][0]
    assert partition.acknowledged_epoch == known[-1][1]
