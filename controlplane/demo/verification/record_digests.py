"""Read topics with read_committed and keep a digest of each record: enough to compare them."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import time
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, cast

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)

from controlplane.demo.errors import DemoError
from mirrors.domain.cluster_snapshot import TopicPartition

SIZE = 16
_TIMEOUT = 15.0


@dataclasses.dataclass
class PartitionDigest:
    """The records of one partition in order: where each one is, what it is, whose key it has."""

    begin: int
    end: int
    offsets: array[int] = dataclasses.field(default_factory=lambda: array("q"))
    records: bytearray = dataclasses.field(default_factory=bytearray)
    keys: bytearray = dataclasses.field(default_factory=bytearray)
    tombstones: bytearray = dataclasses.field(default_factory=bytearray)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def offsets_without_record(self) -> int:
        """Offsets without a record: transaction markers, aborted records, what compaction took."""
        return self.end - self.begin - len(self)

    def record(self, index: int) -> bytes:
        return bytes(self.records[index * SIZE : (index + 1) * SIZE])

    def key(self, index: int) -> bytes:
        return bytes(self.keys[index * SIZE : (index + 1) * SIZE])

    def add(self, message: Message) -> None:
        self.offsets.append(message.offset() or 0)
        self.records += digest(message)
        self.keys += _hash(_framed(message.key()))
        self.tombstones.append(message.value() is None)


def client(cluster: str | Mapping[str, Any]) -> dict[str, Any]:
    """A client's settings from bootstrap servers, or from settings that already have them."""
    given = {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)
    return {"log_level": 0, **given}


def digest(message: Message) -> bytes:
    """One hash over all that a copy has to keep: key, value, headers in their order, timestamp."""
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    parts = [_framed(message.key()), _framed(message.value()), struct.pack(">i", len(headers))]
    for name, value in headers:
        parts += [_framed(name), _framed(value)]
    # Create time or append time is the topic's business; that there is one, and which, is not.
    kind, moment = message.timestamp()
    parts.append(struct.pack(">?q", kind == TIMESTAMP_NOT_AVAILABLE, moment))
    return _hash(b"".join(parts))


def read_partitions(
    cluster: str | Mapping[str, Any], partitions: Iterable[TopicPartition], deadline: float = 300.0
) -> dict[TopicPartition, PartitionDigest]:
    """Every committed record of the given partitions, from the first to the present end."""
    consumer = _consumer(cluster)
    try:
        found = {tp: PartitionDigest(*_bounds(consumer, tp)) for tp in partitions}
        waiting = {tp for tp, part in found.items() if part.end > part.begin}
        consumer.assign([confluent_kafka.TopicPartition(*tp, OFFSET_BEGINNING) for tp in waiting])
        until = time.monotonic() + deadline
        while waiting:
            if time.monotonic() > until:
                topic, partition = sorted(waiting)[0]
                raise DemoError(
                    f"Reading was not done within {deadline:.0f} s: {len(waiting)} partitions are "
                    f"left, {topic}-{partition} first."
                )
            for message in consumer.consume(2000, timeout=0.2):
                _take(message, found, waiting)
        return found
    finally:
        consumer.close()


def read_one(cluster: str | Mapping[str, Any], tp: TopicPartition, offset: int) -> Message:
    """The record at exactly this offset."""
    consumer = _consumer(cluster)
    try:
        consumer.assign([confluent_kafka.TopicPartition(*tp, offset)])
        until = time.monotonic() + _TIMEOUT
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                return message
        raise DemoError(f"{tp[0]}-{tp[1]} gave no record at offset {offset}.")
    finally:
        consumer.close()


def _take(
    message: Message, found: dict[TopicPartition, PartitionDigest], waiting: set[TopicPartition]
) -> None:
    error, tp = message.error(), (message.topic() or "", message.partition() or 0)
    if error is None:
        try:
            found[tp].add(message)
        except UnicodeDecodeError as fault:
            raise DemoError(
                f"{tp[0]}-{tp[1]} offset {message.offset()} has a header name that is not "
                "UTF-8; this reader cannot compare it."
            ) from fault
    elif error.code() == KafkaError._PARTITION_EOF:
        waiting.discard(tp)
    elif not _passes(error):
        raise DemoError(f"Reading {tp[0]}-{tp[1]} failed: {error.str()}.")


def _consumer(cluster: str | Mapping[str, Any]) -> Consumer:
    return Consumer(
        {
            **client(cluster),
            "group.id": "understudy-verify",  # never joined, never committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,  # an empty answer marks the end of a partition
            "allow.auto.create.topics": False,
        }
    )


def _bounds(consumer: Consumer, tp: TopicPartition) -> tuple[int, int]:
    until = time.monotonic() + _TIMEOUT
    while True:
        try:
            bounds = consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*tp), timeout=_TIMEOUT
            )
        except KafkaException as fault:
            if not _passes(fault.args[0]) or time.monotonic() > until:
                raise DemoError(f"The ends of {tp[0]}-{tp[1]} are not told: {fault}") from fault
            time.sleep(0.2)
            continue
        if bounds is None:
            raise DemoError(f"The ends of {tp[0]}-{tp[1]} are not told in {_TIMEOUT:.0f} s.")
        return bounds


def _passes(error: KafkaError) -> bool:
    """Whether waiting may help: a leader that moves, a broker that starts."""
    away = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
    moving = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    return error.retriable() or error.code() in away + moving


def _framed(data: bytes | str | None) -> bytes:
    if data is None:
        return b"\xff\xff\xff\xff"
    raw = data.encode() if isinstance(data, str) else data
    return struct.pack(">i", len(raw)) + raw


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SIZE).digest()
