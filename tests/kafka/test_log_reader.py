"""The reader of internal topics: what it returns, where it ends, and which logs it refuses."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from kafka.protocol.consumer import FetchRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics import log_reader
from mirrors.kafka.internal_topics.log_reader import LogReader, RangeTooLong, Recreated, Truncated
from mirrors.kafka.internal_topics.topic import read_to_end
from mirrors.kafka.protocol.messages import SUPPORTED_VERSIONS
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record, decode_batch
from tests.wire.world import Side, soon, unique

NOW = int(time.time() * 1000)


@pytest.fixture(scope="module")
def side(backup: str) -> Iterator[Side]:
    side = Side("two", backup)
    yield side
    side.close()


@pytest.fixture
def topic(side: Side) -> str:
    topic = unique("internal")
    side.make(topic)
    return topic


def row(text: str) -> Record:
    return Record(0, NOW, f"key of {text}".encode(), text.encode())


def committed(reader: LogReader, seconds: float = 20.0) -> list[bytes | None]:
    """The values that one read returns."""
    return [
        record.value
        for batch in reader.read_committed(soon(seconds))
        if not batch.is_control
        for record in decode_batch(batch.data)
    ]


def everything(reader: LogReader, *, with_outcome: bool = False) -> list[bytes | None]:
    return [
        record.value
        for batch in reader.read_all(soon(), with_outcome=with_outcome)
        if not batch.is_control
        for record in decode_batch(batch.data)
    ]


@pytest.mark.parametrize("newest", [12, 16])
def test_it_returns_what_is_committed_and_goes_on_where_it_stopped(
    side: Side, topic: str, newest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUPPORTED_VERSIONS, FetchRequest, (12, newest))
    reader, chance, wanted = LogReader(side.client, topic), random.Random(7), []
    assert committed(reader) == []
    writers = [side.transaction(unique("writer")) for _ in range(3)]
    for at in range(30):
        values, codec = [f"{at}-{n}" for n in range(chance.randrange(1, 4))], chance.randrange(5)
        rows = [row(value) for value in values]
        if is_plain := chance.random() < 0.3:
            side.write(topic, 0, rows, codec=codec)
        else:
            writer = chance.choice(writers)
            writer.write(topic, 0, rows, codec=codec)
            writer.end(commit=(is_kept := chance.random() < 0.6))
        if is_plain or is_kept:
            wanted += [value.encode() for value in values]
        if chance.random() < 0.3:
            assert committed(reader) == wanted
            wanted = []
    assert committed(reader) == wanted
    assert reader.next_offset == side.ends(topic)[0]
    assert committed(reader) == []


def test_the_end_is_the_one_of_the_beginning(side: Side, topic: str) -> None:
    side.write(topic, 0, [row("before")])
    reader = LogReader(side.client, topic, reply_bytes=1)
    found = reader.read_all(soon(), with_outcome=False)
    assert next(found).next_offset == 1
    side.write(topic, 0, [row("after")])
    assert list(found) == []
    assert everything(reader) == [b"after"]


def test_it_waits_for_open_transactions_and_reports_one_that_stays_open(
    side: Side, topic: str
) -> None:
    writer = side.transaction(unique("writer"))
    side.write(topic, 0, [row("before")])
    writer.write(topic, 0, [row("open")])
    side.write(topic, 0, [row("after")])
    # The transaction ends in another thread, and a client is for one.
    other = Side("two", side.spec.bootstrap_servers)
    reader = LogReader(other.client, topic)
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=f"a transaction has been open in {topic}"):
        committed(reader, 0.5)
    assert time.monotonic() - began < 10
    # What comes before it was read already.
    later = threading.Timer(0.3, lambda: writer.end(commit=True))
    later.start()
    assert committed(reader) == [b"open", b"after"]
    later.join()
    other.close()


def test_open_and_aborted_records_are_returned_on_request(side: Side, topic: str) -> None:
    aborted, writer = side.transaction(unique("writer")), side.transaction(unique("writer"))
    aborted.write(topic, 0, [row("aborted")])
    aborted.end(commit=False)
    writer.write(topic, 0, [row("open")])
    assert everything(LogReader(side.client, topic)) == [b"aborted", b"open"]
    told = {
        next(decode_batch(batch.data)).value: (batch.has_outcome, batch.is_aborted)
        for batch in LogReader(side.client, topic).read_all(soon(), with_outcome=True)
        if not batch.is_control
    }
    assert told == {b"aborted": (True, True), b"open": (False, False)}
    writer.end(commit=False)


def test_aborted_transactions_at_the_end_do_not_delay_it(side: Side, topic: str) -> None:
    side.write(topic, 0, [row("kept")])
    for _ in range(3):
        writer = side.transaction(unique("writer"))
        writer.write(topic, 0, [row("dropped")])
        writer.end(commit=False)
    began = time.monotonic()
    reader = LogReader(side.client, topic)
    assert committed(reader) == [b"kept"]
    assert time.monotonic() - began < 10
    assert reader.next_offset == side.ends(topic)[0]


def test_a_compacted_topic_is_read_over_its_holes(side: Side) -> None:
    topic = unique("compacted")
    side.make(
        topic,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="200",
    )
    writer = side.transaction(unique("writer"))
    for at in range(20):
        writer.write(topic, 0, [Record(0, NOW, b"one", b"%d" % at), Record(0, NOW, b"two", b"")])
        writer.end(commit=at % 3 > 0)
    # A write after segment.ms begins another segment, so that the one before can be compacted.
    for _ in range(2):
        time.sleep(0.3)
        side.write(topic, 0, [Record(0, int(time.time() * 1000), b"roll", b"")])
    until = soon(40)
    while len(side.read(topic)) > 5:
        assert time.monotonic() < until, "not compacted"
        time.sleep(0.5)
    with Admin(side.spec) as admin:
        wanted = [record.value for record in read_to_end(admin, topic)]
    for start in range(side.ends(topic)[0]):
        reader = LogReader(side.client, topic)
        reader.seek("", start, -1)
        found = committed(reader)
        assert found == wanted[len(wanted) - len(found) :]
        assert reader.next_offset == side.ends(topic)[0]
    assert committed(LogReader(side.client, topic)) == wanted


def test_a_log_that_ends_before_the_offset_was_truncated(side: Side, topic: str) -> None:
    side.write(topic, 0, [row("one"), row("two")])
    reader = LogReader(side.client, topic)
    assert committed(reader) == [b"one", b"two"]
    for seek in ((reader.topic_id, 5, 0), (reader.topic_id, 5, -1), (reader.topic_id, 2, 7)):
        # Beyond the end, and after a batch of a leader that this log does not know.
        reader.seek(*seek)
        with pytest.raises(Truncated):
            committed(reader)
        reader.seek(*seek)
        with pytest.raises(Truncated):
            everything(reader)
    # The same leader that confirmed the log before.
    reader.restart()
    assert committed(reader) == [b"one", b"two"]
    reader.next_offset = 9
    with pytest.raises(Truncated):
        committed(reader)


def test_a_log_whose_first_records_were_deleted_was_truncated(side: Side, topic: str) -> None:
    side.write(topic, 0, [row("one"), row("two")])
    reader = LogReader(side.client, topic)
    reader.seek("", 1, 0)
    (deleted,) = side.admin.client.delete_records([TopicPartition(topic, 0, 2)]).values()
    assert deleted.result(20).low_watermark == 2
    with pytest.raises(Truncated):
        committed(reader)
    reader.restart()
    assert (committed(reader), reader.next_offset) == ([], 2)


@pytest.mark.parametrize("caches_leader", [False, True])
def test_a_recreated_topic_is_another_one(side: Side, topic: str, caches_leader: bool) -> None:
    side.write(topic, 0, [row("old")])
    reader = LogReader(side.client, topic, caches_leader=caches_leader)
    assert committed(reader) == [b"old"]
    with Admin(side.spec) as admin:
        admin.delete_topics([topic]).raise_first()
        until = soon()
        while topic in admin.topic_names():
            assert time.monotonic() < until
            time.sleep(0.05)
    with pytest.raises(KafkaUnavailable if caches_leader else UnderstudyError):
        committed(reader)
    side.make(topic)
    side.write(topic, 0, [row("new"), row("newer")])
    with pytest.raises(Recreated):
        committed(reader)
    reader.restart()
    assert committed(reader) == [b"new", b"newer"]


def test_an_empty_topic_has_no_records_and_an_absent_one_is_an_error(
    side: Side, topic: str
) -> None:
    reader = LogReader(side.client, topic)
    for _ in range(2):
        assert (committed(reader), everything(reader), reader.next_offset) == ([], [], 0)
    with pytest.raises(UnderstudyError, match="read absent"):
        committed(LogReader(side.client, unique("absent")), 2)


def test_it_reads_no_more_than_the_caller_wants(side: Side, topic: str) -> None:
    reader = LogReader(side.client, topic, reply_bytes=1)
    for text in ("one", "two", "three"):
        side.write(topic, 0, [row(text)])
    with pytest.raises(RangeTooLong):
        list(reader.read_committed(soon(), most=2))
    assert reader.next_offset == 2
    assert len(list(reader.read_committed(soon(), most=2))) == 1


def test_a_damaged_batch_is_an_error(
    side: Side, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.write(topic, 0, [row("one")], codec=compression.LZ4)
    monkeypatch.setattr(log_reader.google_crc32c, "value", lambda _: 0)
    with pytest.raises(UnderstudyError, match="cannot read") as caught:
        committed(LogReader(side.client, topic))
    assert not isinstance(caught.value, KafkaUnavailable)


def test_a_connection_that_broke_is_replaced(side: Side, topic: str) -> None:
    side.write(topic, 0, [row("one")])
    reader = LogReader(side.client, topic, caches_leader=True)
    assert committed(reader) == [b"one"]
    side.write(topic, 0, [row("two")])
    for (_, purpose), connection in list(side.client._connections.items()):
        if purpose == "requests":
            connection.stream.close()
    with pytest.raises(KafkaUnavailable):
        committed(reader)
    assert committed(reader) == [b"two"]
