"""Reads the batches in an offset range of a remote partition, headers only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mirrors.domain.gaps.foreign_records import ObservedBatch, UnmappedRange
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.metadata import Leader
from spark_runner.engine.batches.header_scan import AbortedFilter
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import CONTROL
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import batches, read_header
from spark_runner.kafka_protocol.single_fetch import fetch_once

_BYTES = 1 << 20


class RemotePartition(Protocol):
    """A remote partition: name and id of its topic, and index."""

    @property
    def remote_topic(self) -> str: ...

    @property
    def remote_id(self) -> bytes: ...

    @property
    def partition(self) -> int: ...


def read_ranges(
    target: ClusterClient,
    partition: RemotePartition,
    spans: Iterable[UnmappedRange],
    deadline: float,
) -> Iterator[tuple[UnmappedRange, list[ObservedBatch]]]:
    """Each range with its batches; ends at the first one that cannot be read now."""
    view = target.describe([partition.remote_topic], deadline)[partition.remote_topic]
    leader = view.leaders.get(partition.partition)
    if view.error or leader is None or leader.node < 0 or view.topic_id != partition.remote_id:
        return
    connection = target.connection(leader.node, "ranges", deadline)
    try:
        for span in spans:
            seen = _read(connection, partition, span, leader, deadline)
            if seen is None:
                return
            yield span, seen
    finally:
        target.discard(connection)


def _read(
    connection: Connection,
    partition: RemotePartition,
    span: UnmappedRange,
    leader: Leader,
    deadline: float,
) -> list[ObservedBatch] | None:
    """Its batches; None while an open transaction hides some."""
    topic, epoch = (partition.remote_topic, partition.remote_id), leader.epoch
    found: list[ObservedBatch] = []
    at = span.first
    while at < span.stop:
        frame, reply = fetch_once(
            connection,
            topic,
            partition.partition,
            at,
            until=deadline,
            leader_epoch=epoch,
            most_bytes=_BYTES,
        )
        before = at
        for row in reply.partitions:
            if row.error == Code.OFFSET_OUT_OF_RANGE:
                return found  # Deleted by retention meanwhile.
            if row.error:
                return None
            for seen in _headers(row, frame):
                at = max(at, seen.last + 1)
                found.append(seen)
        if at == before:
            return None
    return found


def _headers(row: fetch.PartitionData, frame: memoryview) -> Iterator[ObservedBatch]:
    """Every batch of a reply; aborted ones count as empty."""
    aborted = AbortedFilter(row.aborted)
    for batch in batches(frame[row.start : row.stop]):
        header = read_header(batch)
        control = bool(header.attributes & CONTROL)
        if control:
            aborted.ended(header)
        uncommitted = not control and aborted.is_aborted(header)
        yield ObservedBatch(
            header.base_offset,
            header.last_offset,
            0 if uncommitted else header.records,
            header.producer_id,
            control,
            header.producer_epoch,
        )
