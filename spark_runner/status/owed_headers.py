"""First owed records of a partition: their age and whether offsets are dense, by batch headers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.errors import UnderstudyError
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import CONTROL, HEADER_SIZE, TRANSACTIONAL, Header
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import batches, read_header
from spark_runner.kafka_protocol.single_fetch import fetch_once
from spark_runner.positions.topic import Place


class FirstRecords(NamedTuple):
    """`timestamp` of the first record in epoch ms. `is_dense`: each offset that was read holds a
    record."""

    timestamp: int
    is_dense: bool


log = logging.getLogger(__name__)

# Each costs a fetch. The others follow with the next sample.
MOST_FIRST_RECORDS = 50
_BYTES = 16 << 10
_EACH_S = 1.0
_MAGIC = 2


def first_records(
    cluster: ClusterClient, wanted: Mapping[Place, int], deadline: float
) -> dict[Place, FirstRecords]:
    """The first record at or after each offset. Partitions that do not respond or are empty are
    left out."""
    found: dict[Place, FirstRecords] = {}
    try:
        views = cluster.describe({topic for topic, _ in wanted}, deadline)
    except UnderstudyError as error:
        log.info("The age of the first records is unknown: %s", error.message)
        return found
    for (topic, partition), offset in wanted.items():
        view = views.get(topic)
        leader = view.leaders.get(partition) if view is not None else None
        if view is None or leader is None or leader.node < 0:
            continue
        until = min(deadline, time.monotonic() + _EACH_S)
        try:
            link = cluster.link(leader.node, "peek", until)
            frame, reply = fetch_once(
                link, (topic, view.topic_id), partition, offset, until=until,
                isolation=fetch.READ_UNCOMMITTED, most_bytes=_BYTES,
            )  # fmt: skip
        except UnderstudyError as error:
            log.info(
                "The age of the first record of %s-%s is unknown: %s",
                topic,
                partition,
                error.message,
            )
            return found
        first = _first(frame, reply, offset)
        if first is not None:
            found[topic, partition] = first
    return found


def _first(frame: memoryview, reply: fetch.Reply, offset: int) -> FirstRecords | None:
    headers = [
        header
        for row in reply.partitions
        if not row.error and row.stop - row.start >= HEADER_SIZE
        for header in map(read_header, batches(frame[row.start : row.stop]))
    ]
    for header in headers:
        if header.magic != _MAGIC:
            return None
        if not header.attributes & CONTROL and header.base_timestamp >= 0:
            return FirstRecords(header.base_timestamp, are_dense(headers, offset))
    return None


def are_dense(headers: Iterable[Header], offset: int) -> bool:
    """Whether each offset from `offset` on holds a record that consumers receive.

    Compaction leaves holes. A transaction leaves a marker and may be aborted.
    """
    expected = offset
    for header in headers:
        if header.attributes & (CONTROL | TRANSACTIONAL) or header.base_offset > expected:
            return False
        if header.records != header.last_offset_delta + 1:
            return False
        expected = header.last_offset + 1
    return expected > offset
