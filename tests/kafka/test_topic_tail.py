"""What was written to an internal topic since the last read, as librdkafka reads it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics import topic_tail
from mirrors.kafka.internal_topics.topic import read_to_end
from mirrors.kafka.internal_topics.topic_tail import (
    LogPosition,
    TopicReader,
    find_range,
    pooled_reader,
)
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Side, unique


@pytest.fixture(scope="module")
def side(backup: str) -> Iterator[Side]:
    side = Side("two", backup)
    yield side
    side.close()


@pytest.fixture
def reader(side: Side) -> Iterator[TopicReader]:
    reader = TopicReader(side.spec)
    yield reader
    reader.close()


def row(text: str) -> Record:
    return Record(0, 1_000_000, f"key of {text}".encode(), text.encode(), ((b"h", None),))


def begin(side: Side, topic: str) -> LogPosition:
    """A topic, and a position at its beginning."""
    side.make(topic)
    with Admin(side.spec) as admin:
        tail = find_range(admin, topic, LogPosition(), deadline_s=20)
    assert tail is not None
    return tail.end_position


def test_it_brings_what_a_reader_of_committed_records_finds_from_wherever_one_stopped(
    side: Side, reader: TopicReader
) -> None:
    topic, chance = unique("news"), random.Random(5)
    known = begin(side, topic)
    assert reader.fetch_range(topic, known, deadline_s=20) is not None
    writer = side.transaction(unique("writer"))
    for at in range(20):
        rows = [row(f"{at}-{number}") for number in range(chance.randrange(1, 4))]
        codec = chance.choice([compression.NONE, compression.GZIP])
        if chance.random() < 0.4:
            side.write(topic, 0, rows, codec=codec)
        else:
            writer.write(topic, 0, rows, codec=codec)
            writer.end(commit=chance.random() < 0.6)
    with Admin(side.spec) as admin:
        wanted = read_to_end(admin, topic)
        (end,) = admin.list_offsets([(topic, 0)], "stable").done.values()
    for start in range(end + 1):
        tail = reader.fetch_range(topic, LogPosition(known.topic_id, start), deadline_s=20)
        assert tail is not None
        # The leader epoch is known once a batch was read.
        epoch = 0 if start < end else -1
        assert (tail.end_position, tail.is_other_log) == (
            LogPosition(known.topic_id, end, epoch),
            False,
        )
        assert list(tail.records or ()) == [one for one in wanted if one.offset >= start]


def ask_until_it_is_known(reader: TopicReader, topic: str, known: LogPosition) -> None:
    """Of a topic that is seconds old the leader may not be known yet: told by None."""
    for _ in range(20):
        assert reader.fetch_range(topic, known, deadline_s=1) is None


def test_it_waits_until_what_was_written_by_then_is_committed(
    side: Side, reader: TopicReader
) -> None:
    topic = unique("open")
    known = begin(side, topic)
    writer = side.transaction(unique("writer"))
    writer.write(topic, 0, [row("open")])
    with pytest.raises(KafkaUnavailable, match="a transaction has been open"):
        ask_until_it_is_known(reader, topic, known)
    later = threading.Timer(0.3, lambda: writer.end(commit=True))
    later.start()
    tail = reader.fetch_range(topic, known, deadline_s=20)
    later.join()
    assert tail is not None
    assert [one.value for one in tail.records or ()] == [b"open"]


def test_whatever_is_out_of_the_ordinary_is_looked_at_closely(
    side: Side, reader: TopicReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("odd")
    known = begin(side, topic)
    side.write(topic, 0, [row("one")])
    # Never heard of; cut off before the position; another topic of the name; too much at once.
    assert reader.fetch_range(unique("none"), known, deadline_s=20) is None
    assert reader.fetch_range(topic, LogPosition(known.topic_id, 5), deadline_s=20) is None
    assert reader.fetch_range(topic, LogPosition("of another topic", 0), deadline_s=20) is None
    monkeypatch.setattr("mirrors.kafka.internal_topics.topic_tail.MAX_RESPONSES", 1)
    monkeypatch.setattr("mirrors.kafka.internal_topics.topic_tail.REPLY_BYTES", 1)
    side.write(topic, 0, [row("two")])
    assert reader.fetch_range(topic, known, deadline_s=20) is None
    tail = reader.find(topic, known, deadline_s=20)
    assert tail is not None
    assert tail.records is None
    assert [one.value for one in reader.read(tail, deadline_s=20)] == [b"one", b"two"]


def test_a_topic_that_was_made_again_is_not_taken_for_the_one_that_was_read(
    side: Side, reader: TopicReader
) -> None:
    topic = unique("again")
    known = begin(side, topic)
    assert reader.fetch_range(topic, known, deadline_s=20) is not None
    with Admin(side.spec) as admin:
        admin.delete_topics([topic]).raise_first()
        until = time.monotonic() + 20
        while topic in admin.topic_names():
            assert time.monotonic() < until
            time.sleep(0.05)
    assert reader.fetch_range(topic, known, deadline_s=20) is None
    side.make(topic)
    side.write(topic, 0, [row("new")])
    assert reader.fetch_range(topic, known, deadline_s=20) is None


def test_connections_are_kept_for_the_next_who_asks_and_no_longer_than_a_minute(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pooled_reader(side.spec) as first, pooled_reader(side.spec) as second:
        assert first is not second
    with pooled_reader(side.spec) as again:
        assert again in (first, second)
    with pytest.raises(ValueError, match="broken"), pooled_reader(side.spec) as broken:
        raise ValueError("broken")
    monkeypatch.setattr(topic_tail, "IDLE_S", -1.0)
    with pooled_reader(side.spec) as late:
        assert late not in (first, second, broken)
