"""The contents of both clusters: end offsets and committed records, read independently."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

Record = tuple[bytes | None, bytes | None, list[Any] | None, int]


def end_offsets(
    bootstrap: str, topic: str, isolation: str = "read_committed"
) -> dict[tuple[str, int], int]:
    """Last stable offsets of all partitions; with `read_uncommitted` where their logs end."""
    consumer = _reader(bootstrap, isolation)
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return {(topic, number): _end(consumer, topic, number) for number in partitions}
    finally:
        consumer.close()


def _end(consumer: Consumer, topic: str, partition: int) -> int:
    until = time.monotonic() + 10
    while True:
        try:
            tp = TopicPartition(topic, partition)
            end: int = consumer.get_watermark_offsets(tp, timeout=5)[1]
        except KafkaException:
            # A leader of a topic just made is not known everywhere yet.
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return end


def records(bootstrap: str, topic: str, seconds: float = 60.0) -> dict[int, list[Record]]:
    """Every committed record of a topic, in order, by partition."""
    found: dict[int, list[Record]] = {}
    for number, row in messages(bootstrap, topic, seconds):
        rows = found.setdefault(number, [])
        if row is not None:
            rows.append((row.key(), row.value(), row.headers(), row.timestamp()[1]))
    return found


def messages(
    bootstrap: str, topic: str, seconds: float = 60.0
) -> Iterator[tuple[int, Message | None]]:
    """Every committed record with its partition; first each partition once without one."""
    consumer = _reader(bootstrap)
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        assert known.error is None, known.error
        left = set(known.partitions)
        yield from ((number, None) for number in known.partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        until = time.monotonic() + seconds
        while left:
            assert time.monotonic() < until, f"{topic} was not read to its end"
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    yield message.partition(), message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()


def _reader(bootstrap: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 20,
            "check.crcs": True,
            "log_level": 0,
        }
    )
