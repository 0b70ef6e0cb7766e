"""Batch headers are read from a real broker, within a budget, until what is owed is counted."""

from __future__ import annotations

import time

import pytest

from mirrors.domain.account.counted_range import RecordCounter
from spark_runner.kafka_protocol.records import Record
from spark_runner.status import owed_headers
from spark_runner.status.owed_headers import HeaderReader
from tests.wire.sides import soon
from tests.wire.world import Side, unique

PADDING = b"v" * 1_000


def records(count: int) -> list[Record]:
    return [Record(0, 1_000, b"k", PADDING)] * count


def counted(reader: HeaderReader, topic: str, end: int) -> RecordCounter:
    counter = RecordCounter(0)
    for _ in range(100):
        if counter.end >= end:
            return counter
        found = reader.read({(topic, 0): counter.end}, soon())
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
    [first, *_] = HeaderReader(source.client).read({(topic, 0): 15}, soon())[topic, 0]
    assert (first.first, first.last, first.timestamp) == (10, 19, 1_000)


def test_a_bandwidth_limit_bounds_what_is_read(
    source: Side, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_headers, "_MIN_BYTES", 1)
    reader = HeaderReader(source.client, limit=10)
    assert reader.read({(topic, 0): 0}, soon())
    began = time.monotonic()
    assert reader.read({(topic, 0): 0}, soon()) == {}, "one byte a second is left"
    assert time.monotonic() - began < 0.1


def test_a_partition_that_does_not_exist_hides_no_other(source: Side, topic: str) -> None:
    wanted = {(unique("none"), 0): 0, (topic, 7): 0, (topic, 0): 0}
    assert set(HeaderReader(source.client).read(wanted, soon())) == {(topic, 0)}
