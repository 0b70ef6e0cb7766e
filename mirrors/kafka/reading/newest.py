"""Reads the newest committed records of a topic, with their content.

Nothing is committed, and no group gets a member. Records stay within a limit of bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.transforms.evaluation import RecordParts, SampledRecord
from mirrors.domain.transforms.preview import sample_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.quotas import timeout_error
from mirrors.kafka.reading.samples import as_bytes, messages, open_consumer

CLIENT_ID = "understudy-preview"
# Transaction markers and compaction leave offsets without a record: the window is wider.
_WIDER, _MORE = 2, 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewestRecords:
    """The records by partition and offset.

    - `ends`: of each partition that was read, its last stable offset when the reading began.
    - `failed`: why a partition was not read.
    - `left_out`: newest records that are too large together, or that no client can decode.
    """

    records: tuple[SampledRecord, ...]
    ends: dict[int, int]
    failed: dict[int, str]
    left_out: int


def read_newest(
    spec: ClusterSpec, topic: str, count: int, *, most_bytes: int, deadline_s: float
) -> NewestRecords:
    """The newest `count` records, shared among the topic's partitions. Raises UnderstudyError."""
    deadline = time.monotonic() + deadline_s
    ranges, failed = _ranges(spec, topic, deadline_s / 2)
    shares = sample_offsets(ranges, count)
    sample = _Sample({number: end - first for number, (first, end) in shares.items()}, most_bytes)
    windows = {
        number: max(ranges[number][0], end - _WIDER * (end - first) - _MORE)
        for number, (first, end) in shares.items()
    }
    ends = {number: end for number, (_, end) in ranges.items() if number not in failed}
    failed |= _read(spec, topic, windows, ends, sample, deadline)
    if failed and not ends.keys() - failed.keys():
        raise next(iter(failed.values()))
    return NewestRecords(
        records=sample.records(failed),
        ends={number: end for number, end in ends.items() if number not in failed},
        failed={number: error.message for number, error in sorted(failed.items())},
        left_out=sample.left_out,
    )


class _Sample:
    """The newest records of each partition, at most its share of each."""

    def __init__(self, shares: Mapping[int, int], most_bytes: int) -> None:
        self.left_out = 0
        self._rows = {
            number: deque[SampledRecord](maxlen=share) for number, share in shares.items()
        }
        self._sizes: defaultdict[int, int] = defaultdict(int)
        self._most = most_bytes

    def add(self, partition: int, message: Message) -> None:
        rows = self._rows[partition]
        kind, timestamp = message.timestamp()
        try:
            headers: Any = message.headers() or ()  # the client's stubs forget the lists of pairs
        except UnicodeDecodeError:
            self.left_out += 1
            return
        parts = RecordParts(
            as_bytes(message.key()),
            as_bytes(message.value()),
            tuple((name, as_bytes(data)) for name, data in headers),
        )
        if len(rows) == rows.maxlen:
            self._sizes[partition] -= rows[0].parts.bytes
        appended = kind == TIMESTAMP_LOG_APPEND_TIME
        rows.append(SampledRecord(partition, message.offset() or 0, timestamp, appended, parts))
        self._sizes[partition] += parts.bytes
        while sum(self._sizes.values()) > self._most:
            # The oldest of the partition that has most.
            largest = max(self._sizes, key=lambda number: self._sizes[number])
            self._sizes[largest] -= self._rows[largest].popleft().parts.bytes
            self.left_out += 1

    def records(self, failed: Mapping[int, object]) -> tuple[SampledRecord, ...]:
        """Those of partitions that were read to their end."""
        chosen = sorted(self._rows.items())
        return tuple(row for number, rows in chosen if number not in failed for row in rows)


def _ranges(
    spec: ClusterSpec, topic: str, deadline_s: float
) -> tuple[dict[int, tuple[int, int]], dict[int, UnderstudyError]]:
    """Log start and last stable offset of each partition, and why one has none."""
    with Admin(spec, client_id=CLIENT_ID) as admin:
        seen = admin.snapshot([topic], now=0, deadline_s=deadline_s, with_configs=False)
        if topic not in seen.topics:
            why = seen.failed.get(topic) or f"Cluster {spec.alias} has no topic {topic}."
            raise KafkaRefused(why, code="unknown_topic")
        wanted = [(topic, number) for number in range(seen.topics[topic].partitions)]
        firsts = admin.list_offsets(wanted, "earliest", deadline_s=deadline_s)
        ends = admin.list_offsets(wanted, "stable", deadline_s=deadline_s)
    failed = {tp[1]: error for tp, error in (firsts.failed | ends.failed).items()}
    ranges = {tp[1]: (firsts.done[tp], end) for tp, end in ends.done.items() if tp in firsts.done}
    return ranges, failed


def _read(
    spec: ClusterSpec,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    sample: _Sample,
    deadline: float,
) -> dict[int, UnderstudyError]:
    """Read each partition from its start to its end; why one was not read."""
    failed: dict[TopicPartition, UnderstudyError] = {}
    left = set(starts)
    if not left:
        return {}
    with contextlib.closing(open_consumer(spec, CLIENT_ID, committed=True)) as consumer:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, number, start)
                for number, start in starts.items()
            ]
        )
        while left:
            if time.monotonic() >= deadline:
                words = f"Cluster {spec.alias}: {topic} could not be read in time."
                error = timeout_error(spec.alias, words)
                return {tp[1]: why for tp, why in failed.items()} | dict.fromkeys(left, error)
            for (_, number), message, reached in messages(consumer, spec, failed):
                if number not in left:
                    continue
                if message is not None and reached is not None and reached <= ends[number]:
                    sample.add(number, message)
                if message is None or reached is None or reached >= ends[number]:
                    left.discard(number)
                    consumer.incremental_unassign([confluent_kafka.TopicPartition(topic, number)])
    return {tp[1]: why for tp, why in failed.items()}
