"""The demo's traffic contains every kind of record that a replication can get wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from controlplane.demo.shop import events
from controlplane.demo.verification.record_digests import PartitionDigest, read_partitions
from controlplane.demo.verification.topics import partition_counts

ROOT = Path(__file__).resolve().parents[2]


def test_a_day_of_business_has_every_kind_of_record() -> None:
    entries = list(events.business(Random(1), 2000))
    of = {topic.name: [e for e in entries if e.topic == topic.name] for topic in events.PRIMARY}
    assert any(entry.value is None and entry.headers for entry in of["customers"])
    assert all(entry.key for entry in of["customers"])
    assert any(entry.value == b"" for entry in of["clicks"])
    assert all(entry.key is None for entry in of["clicks"] + of["invoices"])
    assert any(len(entry.value or b"") > 50_000 for entry in of["orders"])
    assert all([name for name, _ in e.headers].count("content-type") == 2 for e in of["orders"])
    assert all(("signature", None) in entry.headers for entry in of["invoices"])
    assert {topic.codec for topic in events.PRIMARY} == {"zstd", "lz4", "snappy", "gzip", "none"}
    stock = [e for e in events.warehouse(Random(1), 400) if e.topic == "stock"]
    assert any(entry.value is None for entry in stock)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(
        tmp_path_factory.mktemp("shop"),
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        yield broker.start()
    finally:
        broker.kill()


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    # Not list_consumer_group_offsets: librdkafka 2.16 dies of some answers to it.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [
        TopicPartition(topic.name, number)
        for topic in events.PRIMARY
        for number in range(topic.partitions)
    ]
    try:
        rows = consumer.committed(wanted, timeout=10)
        return {(row.topic, row.partition): row.offset for row in rows if row.offset >= 0}
    except KafkaException:
        return {}
    finally:
        consumer.close()


def read_all(bootstrap: str) -> dict[tuple[str, int], PartitionDigest]:
    counts = partition_counts(bootstrap)
    wanted = [topic for topic in (*events.PRIMARY, *events.BACKUP) if topic.name in counts]
    return read_partitions(bootstrap, [(t.name, n) for t in wanted for n in range(t.partitions)])


def high_watermark(bootstrap: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "probe"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
    finally:
        consumer.close()


def test_traffic_flows_survives_a_dead_broker_and_ends_with_nothing_open(
    broker: KafkaBroker, guard: Guard
) -> None:
    command = [sys.executable, "-m", "controlplane.demo.shop.traffic"]
    environment = {**os.environ, **guard.environment}
    traffic = subprocess.Popen(
        [*command, broker.bootstrap, broker.bootstrap], cwd=ROOT, env=environment
    )
    try:
        wait_for(lambda: len(committed(broker.bootstrap, "billing")) == 9, 40)
        before = records(broker.bootstrap)
        broker.kill()
        broker.restart()
        wait_for(lambda: records(broker.bootstrap) > before + 50, 40)
        assert traffic.poll() is None
        traffic.send_signal(signal.SIGTERM)
        assert traffic.wait(20) == 0
    finally:
        traffic.kill()
        traffic.wait()
    everything = read_all(broker.bootstrap)
    for partition in range(3):
        # The stable end is the end: no transaction is open.
        stable = everything["payments", partition].end
        assert stable == high_watermark(broker.bootstrap, "payments", partition)
    read = committed(broker.bootstrap, "analytics")
    behind = sum(
        part.end - read.get(tp, 0)
        for tp, part in everything.items()
        if tp[0] in {"orders", "clicks"}
    )
    assert behind > 1_000


def records(bootstrap: str) -> int:
    return sum(len(part) for part in read_all(bootstrap).values())


def wait_for(holds, seconds: float) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.5)
