"""Samples of topics: what other codecs or batches would save, against what brokers store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.domain.topics.compression import CompressionSample, best_saving
from mirrors.kafka.reading import compression as reading
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.sides import Side


@pytest.fixture
def side(cluster: ClusterSpec) -> Side:
    return Side("primary", cluster.bootstrap_servers)


def orders(count: int, seed: int = 7) -> list[Record]:
    """JSON as applications write it: the same names in each record, and different values."""
    dice = random.Random(seed)
    return [
        Record(
            number, 1_000 + number, f"customer-{dice.randrange(500)}".encode(),
            json.dumps({
                "order": dice.randrange(10**9), "customer": f"customer-{dice.randrange(500)}",
                "status": dice.choice(["paid", "sent", "open"]), "amount": dice.random(),
                "currency": "EUR", "country": dice.choice(["DE", "FR", "CH"]),
            }).encode(), [(b"trace", dice.randbytes(8))],
        )
        for number in range(count)
    ]  # fmt: skip


def write(side: Side, name: str, records: list[Record], per_batch: int, codec: int) -> None:
    for start in range(0, len(records), per_batch):
        side.write(name, 0, records[start : start + per_batch], codec=codec)


def measured(cluster: ClusterSpec, name: str, partitions: int = 1) -> CompressionSample:
    found = reading.measure_topics(cluster, {name: partitions}, deadline_s=30)
    assert not found.failed
    return found.done[name]


def test_the_saving_is_that_of_records_written_that_way(
    cluster: ClusterSpec, side: Side, topic: Callable[..., str]
) -> None:
    records = orders(2_000)
    now, better, larger = topic(partitions=2), topic(), topic()
    write(side, now, records, 10, compression.LZ4)
    write(side, better, records, 10, compression.ZSTD)
    write(side, larger, records, 600, compression.LZ4)
    sample = measured(cluster, now, partitions=2)
    assert (sample.codec, sample.records, sample.batches) == ("lz4", 2_000, 200)
    assert sample.codec_bytes == pytest.approx(measured(cluster, better).bytes, rel=0.03)
    assert sample.batches_bytes == pytest.approx(measured(cluster, larger).bytes, rel=0.05)
    assert sample.both_bytes < sample.batches_bytes < sample.bytes
    saving = best_saving(sample)
    assert saving is not None
    assert saving.change == "both"


def test_what_is_compressed_well_gets_no_advice(
    cluster: ClusterSpec, side: Side, topic: Callable[..., str]
) -> None:
    name = topic()
    write(side, name, orders(2_000), 1_000, compression.ZSTD)
    assert best_saving(measured(cluster, name)) is None


def test_a_sample_ends_at_its_size_and_has_whole_batches(
    cluster: ClusterSpec, side: Side, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SAMPLE_BYTES", 50_000)
    name = topic()
    write(side, name, orders(2_000), 100, compression.NONE)
    sample = measured(cluster, name)
    assert sample.records == sample.batches * 100
    assert 50_000 <= sample.bytes < 80_000
    assert sample.codec == "none"


def test_aborted_records_and_markers_do_not_end_a_sample(
    cluster: ClusterSpec, side: Side, topic: Callable[..., str]
) -> None:
    name = topic()
    writer = side.transaction(name)
    for commit in (True, False):
        writer.write(name, 0, orders(60))
        writer.end(commit=commit)
    assert measured(cluster, name).records == 120


def test_an_empty_topic_has_no_sample_and_a_missing_one_has_an_error(
    cluster: ClusterSpec, topic: Callable[..., str]
) -> None:
    name = topic()
    found = reading.measure_topics(cluster, {name: 1, "no-such-topic": 1}, deadline_s=20)
    assert found.done == {}
    assert list(found.failed) == ["no-such-topic"]
