"""Fill source topics quickly: batches built once, stamped with fresh timestamps, sent as they are.

A client that builds every record separately would need minutes for the gigabytes of a cell. Every
batch has timestamps of its own, so no two records of a partition are alike and order can be
checked.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from controlplane.bench.errors import BenchError
from controlplane.bench.workload.record_shapes import Shape, build_pool
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.request_header import PRODUCE
from spark_runner.kafka_protocol.tcp_stream import Buffer
from spark_runner.native.crc32c import crc32c

_IN_FLIGHT = 4
_BATCHES_PER_REQUEST = 64
_BYTES_PER_REQUEST = 4_000_000
_REQUEST_S = 30.0
_INDEX = struct.Struct(">i")
_TIMES = struct.Struct(">qq")
_TIMES_AT, _CRC_AT, _CRC_FROM = 27, 17, 21
# Retention goes by the newest timestamp, and a timestamp in the future may be refused.
_AGE_MS = 24 * 3600 * 1000


class ProducedRecords(NamedTuple):
    """How many records each partition got."""

    records: dict[TopicPartition, int]
    seconds: float

    @property
    def total(self) -> int:
        return sum(self.records.values())


def fill(
    bootstrap: str,
    topics: list[str],
    partitions: int,
    shape: Shape,
    total_bytes: int,
    *,
    deadline_s: float = 600.0,
) -> ProducedRecords:
    """Spread `total_bytes` of records evenly over all partitions of the topics."""
    began = time.monotonic()
    cluster = ClusterClient(ClusterSpec(alias="source", bootstrap_servers=bootstrap))
    try:
        cluster.open(began + _REQUEST_S)
        sender = _Sender(cluster, topics, shape, began + deadline_s)
        topic_partitions = [(topic, number) for topic in topics for number in range(partitions)]
        per_batch = shape.records_per_batch
        rounds = max(
            1, round(total_bytes / (len(topic_partitions) * per_batch * shape.record_bytes))
        )
        for some in _requests(topic_partitions, shape, rounds):
            sender.send(some)
        sender.settle(0)
    finally:
        cluster.close()
    records = dict.fromkeys(topic_partitions, rounds * per_batch)
    return ProducedRecords(records, time.monotonic() - began)


def _requests(
    partitions: list[TopicPartition], shape: Shape, rounds: int
) -> Iterator[list[tuple[TopicPartition, int]]]:
    """Groups of (partition, round) for one request each: a broker takes one batch per partition."""
    most = max(1, min(_BATCHES_PER_REQUEST, _BYTES_PER_REQUEST // shape.batch_bytes))
    for number in range(rounds):
        for at in range(0, len(partitions), most):
            yield [(tp, number) for tp in partitions[at : at + most]]


class _Sender:
    def __init__(
        self, cluster: ClusterClient, topics: list[str], shape: Shape, deadline: float
    ) -> None:
        self._deadline = deadline
        views = cluster.describe(topics, deadline)
        node = next(iter(views[topics[0]].leaders.values())).node
        self._connection: Connection = cluster.connection(node, "fill", deadline)
        version = self._connection.version(
            PRODUCE, produce.MIN_VERSION, produce.MAX_VERSION, "Produce"
        )
        self._version = version
        by_id = version >= produce.TOPIC_ID_VERSION
        self._keys = {
            topic: views[topic].topic_id if by_id else produce.name_key(topic) for topic in topics
        }
        self._writer = produce.RequestWriter(version, None, timeout_ms=int(_REQUEST_S * 1000))
        self._pool = build_pool(shape)
        self._next = 0
        self._step = shape.records_per_batch
        self._start = int(time.time() * 1000) - _AGE_MS
        self._open: deque[int] = deque()

    def send(self, rows: list[tuple[TopicPartition, int]]) -> None:
        self.settle(_IN_FLIGHT - 1)
        topics: dict[str, list[tuple[bytes, Buffer]]] = {}
        for (topic, partition), number in rows:
            topics.setdefault(topic, []).append((_INDEX.pack(partition), self._stamped(number)))
        correlation = self._connection.next_correlation()
        listed = [(self._keys[topic], parts) for topic, parts in topics.items()]
        self._connection.send(self._writer.parts(correlation, listed), self._deadline)
        self._open.append(correlation)

    def _stamped(self, number: int) -> bytearray:
        batch = self._pool[self._next % len(self._pool)]
        self._next += 1
        first = self._start + number * self._step
        _TIMES.pack_into(batch, _TIMES_AT, first, first + self._step - 1)
        batch[_CRC_AT:_CRC_FROM] = crc32c(bytes(memoryview(batch)[_CRC_FROM:])).to_bytes(4, "big")
        return batch

    def settle(self, most: int) -> None:
        """Read replies until at most that many are awaited."""
        while len(self._open) > most:
            self._open.popleft()
            frame = self._connection.receive(None, self._deadline)
            for answer in produce.read_reply(frame, self._version)[1]:
                if answer.error:
                    raise BenchError(
                        f"The source broker refused test data for partition {answer.partition} "
                        f"(error {answer.error} {answer.message}). Is another benchmark running?"
                    )
