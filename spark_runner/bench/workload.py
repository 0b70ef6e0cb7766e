"""Fills a source topic with batches of a given shape, and compares the content of two topics."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import time
from collections.abc import Iterator

from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, list_offsets
from mirrors.kafka.protocol.metadata import TopicView
from spark_runner.kafka_protocol import compression, fetch, produce
from spark_runner.kafka_protocol.batch_header import CONTROL, HEADER_SIZE
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import (
    Record,
    batches,
    decode_batch,
    encode_batch,
    read_header,
)
from spark_runner.kafka_protocol.tcp_stream import Buffer

_REQUEST_S = 60.0
_FETCH_BYTES = 16 << 20
_POOL = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of records. A batch has `batch_bytes` before compression."""

    record_bytes: int
    codec: str
    batch_bytes: int
    partitions: int
    gigabytes: float

    @property
    def batch_records(self) -> int:
        return max(1, self.batch_bytes // self.record_bytes)

    @property
    def rounds(self) -> int:
        """Batches for each partition."""
        whole = self.gigabytes * 1e9 / self.record_bytes / self.batch_records / self.partitions
        return max(1, round(whole))


def pool(shape: Shape) -> list[bytearray]:
    """Batches of half-compressible records, one key and one header each."""
    chance = random.Random(1)  # noqa: S311 - the same noise in every run
    key, header = b"key-0000", (b"trace", b"0123456789abcdef")
    rest = max(1, shape.record_bytes - len(key) - len(header[0]) - len(header[1]))
    codec = compression.NAMES.index(shape.codec)
    made = []
    for _ in range(_POOL):
        now = int(time.time() * 1000)
        records = []
        for at in range(shape.batch_records):
            random_bytes = chance.randbytes(rest * 5 // 8)
            value = random_bytes + (b"the same words again and again, " * (rest // 32 + 1))
            records.append(Record(at, now, key, value[:rest], (header,)))
        made.append(encode_batch(records, codec=codec))
    return made


def produce_batches(cluster: ClusterClient, view: TopicView, shape: Shape) -> None:
    """Produce the shape's batches to every partition, with several requests in flight."""
    made = pool(shape)
    indexes = [partition.to_bytes(4, "big") for partition in range(shape.partitions)]
    writer = produce.RequestWriter(produce.MAX_VERSION, None, timeout_ms=30_000)
    connection = cluster.connection(view.leaders[0].node, "bench", time.monotonic() + _REQUEST_S)
    for number in range(shape.rounds):
        batch = made[number % len(made)]
        rows: list[tuple[bytes, Buffer]] = [(index, batch) for index in indexes]
        parts = writer.parts(connection.next_correlation(), [(view.topic_id, rows)])
        connection.send(parts, time.monotonic() + _REQUEST_S)
        if connection.in_flight_requests >= 4:
            _acknowledged(connection.receive(None, time.monotonic() + _REQUEST_S))
    while connection.in_flight_requests:
        _acknowledged(connection.receive(None, time.monotonic() + _REQUEST_S))


def _acknowledged(frame: memoryview) -> None:
    _, answers = produce.read_reply(frame, produce.MAX_VERSION)
    for answer in answers:
        if answer.error:
            raise SystemExit(f"The source rejected a batch: {answer}")


def is_same_content(
    source: ClusterClient, view: TopicView, target: ClusterClient, remote: TopicView
) -> tuple[bool, int]:
    """Whether both topics hold the same records in the same order, and their number."""
    total = 0
    for partition in view.leaders:
        # Fast if the batches are equal. A repacked copy is compared record by record.
        for digest in (_bodies, _records):
            here, there = digest(source, view, partition), digest(target, remote, partition)
            if here == there:
                break
        else:
            return False, total
        total += here[1]
    return True, total


def _bodies(cluster: ClusterClient, view: TopicView, partition: int) -> tuple[str, int]:
    digest, count = hashlib.blake2b(digest_size=16), 0
    for batch in _log(cluster, view, partition):
        header = read_header(batch)
        digest.update(batch[HEADER_SIZE:])
        count += header.records
    return digest.hexdigest(), count


def _records(cluster: ClusterClient, view: TopicView, partition: int) -> tuple[str, int]:
    digest, count = hashlib.blake2b(digest_size=16), 0
    for batch in _log(cluster, view, partition):
        for record in decode_batch(batch):
            digest.update(repr(record[1:]).encode())
            count += 1
    return digest.hexdigest(), count


def _log(cluster: ClusterClient, view: TopicView, partition: int) -> Iterator[memoryview]:
    """The data batches of a partition, in order."""
    until = time.monotonic() + _REQUEST_S * 10
    wanted = [(view.name, partition, view.leaders[partition])]
    tp = (view.name, partition)
    at = list_offsets(cluster, wanted, at=EARLIEST, deadline=until)[tp].offset
    end = list_offsets(cluster, wanted, at=LATEST, deadline=until)[tp].offset
    connection = cluster.connection(view.leaders[partition].node, "bench", until)
    while at < end:
        session = fetch.FetchSession(
            fetch.TOPIC_ID_VERSION, max_wait_ms=100, min_bytes=1, max_bytes=_FETCH_BYTES
        )
        session.add(fetch.FetchPartition(view.topic_id, partition, at, -1, -1, _FETCH_BYTES))
        connection.send([session.request(connection.next_correlation())], until)
        frame = connection.receive(None, until)
        for row in fetch.read_reply(frame, fetch.TOPIC_ID_VERSION)[1].partitions:
            for batch in batches(frame[row.start : row.stop]):
                header = read_header(batch)
                at = header.last_offset + 1
                if not header.attributes & CONTROL:
                    yield batch
