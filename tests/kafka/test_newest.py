"""The newest records of a topic: shared among its partitions, within a limit of bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.reading.newest import NewestRecords, read_newest


def newest(primary: str, name: str, count: int, most_bytes: int = 1 << 20) -> NewestRecords:
    spec = ClusterSpec(alias="primary", bootstrap_servers=primary)
    return read_newest(spec, name, count, most_bytes=most_bytes, deadline_s=20)


def offsets_of(found: NewestRecords) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in found.records]


def test_the_newest_records_of_all_partitions_are_read(
    primary: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    producer = Producer({"bootstrap.servers": primary})
    for number in range(20):
        producer.produce(name, f"v{number}".encode(), partition=0, headers=[("h", None)])
    producer.produce(name, None, b"k", partition=1, timestamp=1234)
    producer.flush(20)
    found = newest(primary, name, 5)
    assert offsets_of(found) == [(0, 16), (0, 17), (0, 18), (0, 19), (1, 0)]
    assert (found.ends, found.failed, found.left_out) == ({0: 20, 1: 1, 2: 0}, {}, 0)
    assert found.records[0].parts.value == b"v16"
    assert found.records[0].parts.headers == (("h", None),)
    assert (found.records[4].parts.key, found.records[4].timestamp) == (b"k", 1234)
    assert len(newest(primary, name, 500).records) == 21


def test_markers_and_aborted_records_are_no_records(
    primary: str, topic: Callable[..., str]
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": primary, "transactional.id": name})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(name, str(number).encode())
        if number == 4:
            producer.flush(20)
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    found = newest(primary, name, 3)
    assert [row.parts.value for row in found.records] == [b"2", b"3", b"5"]
    assert found.ends == {0: 12}


def test_the_oldest_are_left_out_where_all_are_too_large(
    primary: str, topic: Callable[..., str]
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": primary})
    for _ in range(5):
        producer.produce(name, b"x" * 1000)
    producer.flush(20)
    found = newest(primary, name, 5, most_bytes=3000)
    assert (offsets_of(found), found.left_out) == ([(0, 2), (0, 3), (0, 4)], 2)


def test_a_topic_that_is_missing_is_named(primary: str) -> None:
    with pytest.raises(UnderstudyError, match="has no topic no-such-topic"):
        newest(primary, "no-such-topic", 5)
