"""Overlapping fetches of live records: what they repeat is dropped, and nothing else."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.distance.relay import Relay
from spark_runner.engine.batches.header_scan import scan
from spark_runner.engine.model.distance import NEAR, Distance
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.source.overlap import OverlappingFetches, trim
from spark_runner.kafka_protocol.batch_header import CONTROL, TRANSACTIONAL
from spark_runner.kafka_protocol.fetch import PartitionData
from spark_runner.kafka_protocol.records import Record, encode_batch, encode_record, frame_batch
from spark_runner.native.crc32c import crc32c
from tests.wire.far import ConnectionFaults
from tests.wire.independent import compare
from tests.wire.running import PARTITIONS, Running
from tests.wire.test_chaos_search import one_round
from tests.wire.world import Flow, Side, unique

_EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT, _LAST_DELTA_AT, _PRODUCER_AT = 12, 17, 21, 23, 43
_MARKERS = {"abort": b"\0\0\0\0", "commit": b"\0\0\0\1"}


class Log:
    """A log with transactions, and what a broker answers to a fetch."""

    def __init__(self) -> None:
        # (first offset, offset after it, bytes)
        self.batches: list[tuple[int, int, bytes]] = []
        # (producer, first offset, offset of the marker)
        self.aborted: list[tuple[int, int, int]] = []
        self._open: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else 7

    def write(self, producer: int, records: int, epoch: int, *, lost: int = 0) -> None:
        """`lost`: compaction removed as many of the first records."""
        first = self.end
        if producer:
            self._open.setdefault(producer, first)
        rows = [Record(first + at, 5, b"k", b"%d" % at) for at in range(lost, records)]
        batch = encode_batch(rows, base=first)
        self._add(batch, first, records, epoch, TRANSACTIONAL if producer else 0, producer or -1)

    def mark(self, producer: int, kind: str, epoch: int) -> None:
        first = self.end
        began = self._open.pop(producer, None)
        if kind == "abort" and began is not None:
            self.aborted.append((producer, began, first))
        body = encode_record(0, 0, _MARKERS[kind], bytes(6))
        batch = frame_batch(first, 0, body, 0, 5, 5, 1)
        self._add(batch, first, 1, epoch, CONTROL | TRANSACTIONAL, producer)

    def _add(
        self, batch: bytearray, first: int, records: int, epoch: int, attributes: int, producer: int
    ) -> None:
        struct.pack_into(">i", batch, _EPOCH_AT, epoch)
        struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes)
        struct.pack_into(">q", batch, _PRODUCER_AT, producer)
        struct.pack_into(">i", batch, _LAST_DELTA_AT, records - 1)
        batch[_CRC_AT:_ATTRIBUTES_AT] = crc32c(bytes(batch[_ATTRIBUTES_AT:])).to_bytes(4, "big")
        self.batches.append((first, first + records, bytes(batch)))

    def epoch_before(self, offset: int) -> int:
        before = [data for _, after, data in self.batches if after <= offset]
        return int(struct.unpack_from(">i", before[-1], _EPOCH_AT)[0]) if before else -1

    def answer(self, offset: int, stop: int) -> tuple[PartitionData, ReceiveBuffer]:
        """All from the batch with this offset up to `stop`."""
        data = b"".join(data for _, after, data in self.batches if offset < after <= stop)
        aborted = tuple(
            (first, producer)
            for producer, first, marker in self.aborted
            if marker >= offset and first < stop
        )
        buffer = ReceiveBuffer(memoryview(bytearray(data or b"\0")))
        row = PartitionData(b"t", 0, 0, stop, stop, 0, aborted, 0, len(data), None)
        return row, buffer


@st.composite
def logs(draw: st.DrawFn) -> Log:
    # By a number: drawn one by one, transactions that matter to each other are rare.
    chance = random.Random(draw(st.integers(0, 2**32)))
    log, epoch = Log(), 3
    for _ in range(chance.randint(1, 25)):
        epoch += chance.choice([0, 0, 0, 0, 1])
        producer = chance.choice([0, 1, 1, 2])
        kind = chance.choice(["data", "data", "abort", "commit"])
        if kind == "data" or not producer:
            records = chance.randint(1, 4)
            log.write(producer, records, epoch, lost=chance.choice([0, records - 1]))
        else:
            log.mark(producer, kind, epoch)
    return log


def read(log: Log, expected: int, row: PartitionData, buffer: ReceiveBuffer) -> tuple[object, ...]:
    """What the engine would copy, and where it would go on."""
    partition = Partition("t", 0, "r")
    partition.rewind(expected)
    scan(partition, buffer, row.start, row.stop, row.aborted)
    found = [(batch.first, batch.after, batch.header) for batch in partition.queue]
    return found, partition.next_fetch, partition.acknowledged_offset if not found else None


@given(logs(), st.data())
def test_a_trimmed_reply_is_the_reply_to_a_later_request(log: Log, data: st.DataObject) -> None:
    ends = [7, *(after for _, after, _ in log.batches)]
    asked = data.draw(st.sampled_from(ends))
    expected = data.draw(st.sampled_from([end for end in ends if end >= asked]))
    stop = data.draw(st.sampled_from([end for end in ends if end >= asked]))
    row, buffer = log.answer(asked, stop)
    kept = trim(row, buffer.view, expected, log.epoch_before(expected))
    if expected == asked:
        # Nothing to drop: the reader uses such a reply as it is.
        return
    if stop <= expected:
        assert kept is None
        return
    assert kept is not None
    later, other = log.answer(expected, stop)
    assert read(log, expected, kept, buffer) == read(log, expected, later, other)


@given(logs(), st.data())
def test_a_reply_from_another_history_is_not_used(log: Log, data: st.DataObject) -> None:
    ends = [after for _, after, _ in log.batches]
    expected = data.draw(st.sampled_from(ends))
    row, buffer = log.answer(7, log.end)
    assert trim(row, buffer.view, expected, log.epoch_before(expected) + 1) is None


def test_only_a_distant_source_with_a_budget_gets_overlapping_fetches() -> None:
    assert NEAR.overlap(1_000_000) is None
    assert Distance(0.1, 0.1).overlap(0) is None
    found = Distance(0.1, 0.0).overlap(1_000_000)
    assert found is not None
    assert (found.connections, found.bytes_s) == (4, 1_000_000)
    assert found.spacing_s * found.connections == pytest.approx(0.1)
    widest = Distance(1.0, 0.0).overlap(1)
    assert widest is not None
    assert widest.connections == 7


# -- through the relay


class Overlapped:
    """Counts overlapping fetches and the bytes that they repeated."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.replies = self.repeated = 0
        answered, record = OverlappingFetches.answered, OverlappingFetches.record_repeated

        def replied(overlap: OverlappingFetches, *args: object) -> None:
            self.replies += 1
            answered(overlap, *args)  # type: ignore[arg-type]

        def recorded(overlap: OverlappingFetches, size: int, now: float) -> None:
            self.repeated += size
            record(overlap, size, now)

        patch.setattr(OverlappingFetches, "answered", replied)
        patch.setattr(OverlappingFetches, "record_repeated", recorded)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_live_records_cross_once_with_overlapping_fetches(
    source: Side,
    target: Side,
    relays: tuple[Relay, ...],
    delivery: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overlapped, topic = Overlapped(monkeypatch), unique("overlap")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, delivery=delivery, fetch_overlap_bytes="100000000")
    remote = flow.add(topic)
    with Running(flow, topic) as running:
        running.write(150, pause=0.004)
        running.caught_up()
    assert overlapped.replies > 20
    assert overlapped.repeated > 0
    compare(flow, topic, remote)


def test_the_budget_limits_what_is_repeated(
    source: Side, target: Side, relays: tuple[Relay, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapped, topic = Overlapped(monkeypatch), unique("budget")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, fetch_overlap_bytes="200000")
    remote = flow.add(topic)
    with Running(flow, topic) as running:
        began = time.monotonic()
        running.write(150, pause=0.004)
        took = time.monotonic() - began
        running.caught_up()
    # Beyond the budget and its burst of half a second: the replies on their way when it ends.
    assert 0 < overlapped.repeated < 200_000 * (took + 1) + 2_000_000
    compare(flow, topic, remote)


def test_an_idle_source_gets_no_overlapping_fetches(
    source: Side, target: Side, relays: tuple[Relay, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapped, topic = Overlapped(monkeypatch), unique("idle")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, fetch_overlap_bytes="100000000")
    flow.add(topic)
    with Running(flow, topic) as running:
        running.write(10)
        running.caught_up()
        time.sleep(0.5)
        before = overlapped.replies
        time.sleep(2)
        assert overlapped.replies == before


@pytest.mark.parametrize("seed", [3, 12, 27])
def test_chaos_at_a_distance_with_overlapping_fetches(
    source: Side, target: Side, relays: tuple[Relay, ...], seed: int
) -> None:
    with ConnectionFaults(relays, seed, every_s=2.0):
        one_round(source, target, seed, epochs=4, pace=5.0, fetch_overlap_bytes="100000000")
