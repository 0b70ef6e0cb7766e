"""Every record is replicated unchanged, whatever it holds and however its batch was written."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Flow, Side, bare, unique

NOW = int(time.time() * 1000)
RAW_BATCH = 20 << 10  # above the size from which batches are no longer merged


def nasty_records(seed: int) -> list[Record]:
    """Null and empty keys and values, headers of any bytes, odd timestamps; 12 KB and more each."""
    chance = random.Random(seed)
    keys = (None, b"", b"key", bytes(range(256)))
    values = (None, b"", b"value", chance.randbytes(RAW_BATCH))
    headers = (
        (),
        ((b"", None), (b"", b"")),
        ((b"\xff\xfe", b"\x00"), (b"twice", b"1"), (b"twice", b"2")),
        tuple((b"h%d" % at, b"x" * at) for at in range(40)),
    )
    timestamps = (0, -1, -5, 31_536_000_000, NOW, NOW + 3_000_000, NOW - 10)
    rows = list(itertools.product(keys, values, headers))
    chance.shuffle(rows)
    return [
        Record(0, timestamps[at % len(timestamps)], key, value, names)
        for at, (key, value, names) in enumerate(rows)
    ]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_every_byte_of_every_record_crosses_with_every_codec(
    source: Side, target: Side, delivery: str
) -> None:
    topic = unique("faithful")
    source.make(topic, 5)
    for partition in range(5):
        for seed in range(3):
            source.write(topic, partition, nasty_records(seed), codec=partition)
    flow = Flow(source, target, delivery=delivery)
    remote = flow.add(topic)
    result, driver = flow.copy()
    assert result.errors == ()
    assert result.records == 5 * 3 * 64
    for partition in range(5):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
        assert next(iter(target.headers(remote, partition))).codec == partition
    assert [(row.lane, row.why) for row in result.lanes] == [("raw", "")]
    assert sum(row.records for row in result.lanes) == result.records
    assert driver.figures[-1].lanes == result.lanes


@pytest.mark.parametrize(("fetch", "produce"), [(12, 9), (12, 12), (13, 11), (16, 13)])
def test_older_protocol_versions_copy_the_same(
    source: Side, target: Side, fetch: int, produce: int
) -> None:
    topic = unique("versions")
    source.make(topic, 2)
    for partition, seed in itertools.product(range(2), range(2)):
        source.write(topic, partition, nasty_records(seed), codec=compression.LZ4)
    flow = Flow(source, target)
    remote = flow.add(topic)
    copier = RawCopier(newest_fetch=fetch, newest_produce=produce)
    result, _ = flow.copy(copier)
    assert result.errors == ()
    for partition in range(2):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))


@pytest.mark.parametrize("size", [1, 900_000, 1_000_000])
def test_records_from_one_byte_to_the_broker_limit_cross(
    source: Side, target: Side, size: int
) -> None:
    topic = unique("sizes")
    source.make(topic)
    for seed in range(3):
        source.write(topic, 0, [Record(0, NOW, None, random.Random(seed).randbytes(size))])
    flow = Flow(source, target)
    remote = flow.add(topic)
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote)) == bare(source.read(topic))


def test_a_batch_larger_than_the_receive_buffer_crosses(source: Side, target: Side) -> None:
    topic = unique("huge")
    source.make(topic, max_message_bytes="30000000")
    body = random.Random(1).randbytes(24 << 20)
    for _ in range(2):
        source.write(topic, 0, [Record(0, NOW, b"k", body)])
    flow = Flow(source, target)
    remote = flow.add(topic, max_message_bytes="30000000")
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote)) == bare(source.read(topic))


def test_aborted_transactions_and_markers_do_not_cross_and_the_rest_does(
    source: Side, target: Side
) -> None:
    topic = unique("aborts")
    source.make(topic, 2)
    chance = random.Random(7)
    writers = [source.transaction(unique("tx")) for _ in range(4)]
    dirty: set[int] = set()
    for at in range(120):
        who = chance.randrange(4)
        rows = [Record(0, NOW + at, b"%d" % at, b"x" * chance.randrange(1, 3000))] * 3
        if chance.random() < 0.25:
            source.write(topic, at % 2, rows, codec=compression.GZIP)
        else:
            writers[who].write(topic, at % 2, rows, codec=compression.LZ4)
            dirty.add(who)
        if who in dirty and chance.random() < 0.4:
            writers[who].end(commit=chance.random() < 0.5)
            dirty.discard(who)
    for who in dirty:
        writers[who].end(commit=who % 2 == 0)
    time.sleep(0.2)
    flow = Flow(source, target)
    remote = flow.add(topic)
    result, _ = flow.copy()
    assert result.errors == ()
    for partition in range(2):
        wanted = source.read(topic, partition)
        assert 0 < len(wanted) < len(source.read(topic, partition, committed=False))
        assert bare(target.read(remote, partition)) == bare(wanted)


@pytest.mark.parametrize("remote_type", ["CreateTime", "LogAppendTime"])
def test_append_time_stays_visible_unless_the_target_stamps_its_own(
    source: Side, target: Side, remote_type: str
) -> None:
    topic = unique("append")
    source.make(topic, message_timestamp_type="LogAppendTime")
    for at in range(3):
        source.write(
            topic, 0, [Record(0, at, b"k", b"v" * RAW_BATCH), Record(0, at + 5, None, b"")]
        )
    flow = Flow(source, target)
    remote = flow.add(topic, message_timestamp_type=remote_type)
    result, _ = flow.copy()
    assert result.errors == ()
    copied, wanted = target.read(remote), source.read(topic)
    assert [row[2:] for row in copied] == [row[2:] for row in wanted]
    same = [row.timestamp for row in copied] == [row.timestamp for row in wanted]
    assert same == (remote_type == "CreateTime")
    kept = ("repack", "append time kept as record time")
    lanes = [(row.lane, row.why) for row in result.lanes]
    assert lanes == ([kept] if remote_type == "CreateTime" else [("raw", "")])


@pytest.mark.parametrize("asked", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_codec_that_the_target_names_is_written_by_us(
    source: Side, target: Side, asked: str
) -> None:
    topic = unique("codec")
    source.make(topic)
    for codec in range(5):
        source.write(topic, 0, nasty_records(codec), codec=codec)
    flow = Flow(source, target)
    remote = flow.add(topic, compression_type=asked)
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote)) == bare(source.read(topic))
    number = compression.NAMES.index("none" if asked == "uncompressed" else asked)
    data = [header for header in target.headers(remote) if not header.attributes & 0x20]
    assert {header.codec for header in data} == {number}


def test_a_batch_over_the_targets_limit_is_split(source: Side, target: Side) -> None:
    topic = unique("split")
    source.make(topic)
    chance = random.Random(3)
    rows = [Record(0, NOW + at, b"%d" % at, chance.randbytes(900)) for at in range(500)]
    for codec in (compression.NONE, compression.LZ4):
        source.write(topic, 0, rows, codec=codec)
    flow = Flow(source, target)
    remote = flow.add(topic, max_message_bytes="20000")
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote)) == bare(source.read(topic))


def test_a_batch_over_a_limit_that_nobody_told_us_is_taken_apart(
    source: Side, target: Side
) -> None:
    topic = unique("unknown")
    source.make(topic)
    rows = [Record(0, NOW, b"%d" % at, b"v" * 900) for at in range(50)]
    source.write(topic, 0, rows)
    flow = Flow(source, target)
    remote = flow.add(topic, configs={}, max_message_bytes="20000")
    result, _ = flow.copy()
    assert result.errors == ()
    assert bare(target.read(remote)) == bare(source.read(topic))
    assert sum(run.length for run in flow.runs(topic)) == 50
