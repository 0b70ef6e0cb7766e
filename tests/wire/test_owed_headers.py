"""Batch headers are read from a real broker, within a budget, until what is owed is counted."""

from __future__ import annotations

import time

import pytest

from mirrors.domain.account.counted_range import RecordCounter
from mirrors.domain.cluster_snapshot import TopicPartition
from spark_runner.kafka_protocol.records import Record
from spark_runner.status import owed_headers
from spark_runner.status.owed_headers import HeaderReader
from spark_runner.status.source_offsets import OffsetSampler
from tests.wire.sides import soon
from tests.wire.world import Side, unique

PADDING = b"v" * 1_000
END = 62


class Ends(dict[TopicPartition, int]):
    """Every partition ends where the topic of these tests does."""

    def __missing__(self, tp: TopicPartition) -> int:
        return END


def records(count: int) -> list[Record]:
    return [Record(0, 1_000, b"k", PADDING)] * count


def counted(reader: HeaderReader, topic: str, end: int) -> RecordCounter:
    counter = RecordCounter(0)
    for _ in range(100):
        if counter.end >= end:
            return counter
        found = reader.read({(topic, 0): counter.end}, soon(), Ends())
        counter.add(found.get((topic, 0), ()))
    raise AssertionError(f"read up to {counter.end} of {end}")


@pytest.fixture
def topic(source: Side) -> str:
    """30 plain records, 20 of an aborted transaction, 10 of a committed one: two markers."""
    name = unique("headers")
    source.make(name)
    for _ in range(3):
        source.write(name, 0, records(10))
    for count, committed in ((20, False), (10, True)):
        transaction = source.transaction(unique("tx"))
        transaction.write(name, 0, records(count))
        transaction.end(commit=committed)
    return name


def test_aborted_records_and_markers_do_not_count(source: Side, topic: str) -> None:
    counter = counted(HeaderReader(source.client), topic, 62)
    assert counter.counted == (0, 62, 40)
    [first, *_] = HeaderReader(source.client).read({(topic, 0): 15}, soon(), Ends())[topic, 0]
    assert (first.first, first.last, first.timestamp) == (10, 19, 1_000)


def test_a_bandwidth_limit_bounds_what_is_read(
    source: Side, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_headers, "_MIN_BYTES", 1)
    reader = HeaderReader(source.client, limit=10)
    assert reader.read({(topic, 0): 0}, soon(), Ends())
    began = time.monotonic()
    assert reader.read({(topic, 0): 0}, soon(), Ends()) == {}, "one byte a second is left"
    assert time.monotonic() - began < 0.1


def test_a_partition_that_does_not_exist_hides_no_other(source: Side, topic: str) -> None:
    wanted = {(unique("none"), 0): 0, (topic, 7): 0, (topic, 0): 0}
    found = HeaderReader(source.client).read(wanted, soon(), Ends())
    assert {tp for tp, batches in found.items() if batches} == {(topic, 0)}
    assert set(found) == set(wanted), "the others are asked again with backoff"


def test_small_fetches_are_repeated_up_to_the_end(
    source: Side, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_headers, "_EACH_BYTES", (1, 1))
    found = HeaderReader(source.client).read({(topic, 0): 0}, soon(), Ends())[topic, 0]
    assert [batch.first for batch in found] == [0, 10, 20, 30, 50, 51, 61]


def test_headers_are_read_of_what_the_same_sample_found(source: Side) -> None:
    name = unique("fresh")
    source.make(name)
    sampler = OffsetSampler(source.spec)
    try:
        partitions = [(name, 0)]
        assert sampler.sample(partitions, (), {(name, 0): 0}).headers == {}
        source.write(name, 0, records(10))
        [batch] = sampler.sample(partitions, (), {(name, 0): 0}).headers[name, 0]
        assert (batch.first, batch.records) == (0, 10)
        assert sampler.sample(partitions, (), {(name, 0): 10}).headers == {}
    finally:
        sampler.close()


def test_a_connection_that_the_broker_has_closed_is_opened_again(source: Side, topic: str) -> None:
    reader = HeaderReader(source.client)
    assert reader.read({(topic, 0): 0}, soon(), Ends())[topic, 0]
    for (_, purpose), connection in source.client._connections.items():
        if purpose == "peek":
            connection.close()
    assert counted(reader, topic, END).counted == (0, END, 40)
