"""Reads the committed records of one range of a partition, with their content."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.reading.samples import as_bytes, messages, open_consumer


class KafkaRecord(NamedTuple):
    """`timestamp` is milliseconds since the epoch; `is_append_time`: the broker set it."""

    offset: int
    timestamp: int
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_range(
    spec: ClusterSpec,
    tp: TopicPartition,
    first: int,
    end: int,
    *,
    client_id: str,
    patience_s: float,
) -> Iterator[KafkaRecord]:
    """The committed records from `first` up to but without `end`, in offset order.

    Raises UnderstudyError; KafkaUnavailable after `patience_s` seconds without any progress.
    """
    failed: dict[Any, Any] = {}
    with contextlib.closing(open_consumer(spec, client_id, committed=True)) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(*tp, first)])
        reached, moved = first, time.monotonic()
        while reached < end:
            for _, message, at in messages(consumer, spec, failed):
                if at is None:
                    raise failed[tp]
                # Without a record: the end of the log, so nothing more is in the range.
                reached = end if message is None else at
                moved = time.monotonic()
                if message is not None and first <= at - 1 < end:
                    yield _record(message, at - 1)
                if reached >= end:
                    break
            if time.monotonic() - moved > patience_s:
                raise KafkaUnavailable(
                    f"Cluster {spec.alias}: {tp[0]}-{tp[1]} gave no record after offset "
                    f"{reached} within {patience_s:g} s. Check its brokers."
                )


def _record(message: Message, offset: int) -> KafkaRecord:
    kind, timestamp = message.timestamp()
    pairs: Any = message.headers() or ()  # the client's stubs forget the lists of pairs
    return KafkaRecord(
        offset,
        timestamp,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        as_bytes(message.key()),
        as_bytes(message.value()),
        tuple((key, as_bytes(value)) for key, value in pairs),
    )
