"""Samples the end of topics, and builds the sample again with another codec and larger batches.

Nothing is committed, and no group gets a member. Records stay in memory: only sizes are returned.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import Message
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.topics.compression import CODEC, LARGE_BATCH_BYTES, CompressionSample
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.internal_topics.log_reader import LogReader, Truncated
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.protocol.broker_pool import BrokerPool
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.quotas import timeout_error
from mirrors.kafka.reading.samples import as_bytes, messages, open_consumer
from mirrors.kafka.security.connection_settings import ConnectionFacts

CLIENT_ID = "understudy-compression"
SAMPLE_BYTES = 1 << 20
# The sample begins at most this number of offsets before the end.
_LAST_OFFSETS = 20_000
_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_HEADER = DefaultRecordBatch.HEADER_STRUCT
# A record's length, attributes, deltas and sizes, about.
_OVERHEAD = 12


@dataclasses.dataclass(frozen=True)
class _Batch:
    first: int
    next: int
    size: int
    codec: int


@dataclasses.dataclass
class _Sample:
    """Batches of one partition in offset order, and their records as far as they were read."""

    batches: list[_Batch]
    records: list[Message] = dataclasses.field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].next


def measure_topics(
    spec: ClusterSpec, topics: Mapping[str, int], *, deadline_s: float
) -> Partial[str, CompressionSample]:
    """A sample of the fullest partition of each topic; `topics` has their partition counts.

    A topic without records is in neither part of the result.
    """
    deadline = time.monotonic() + deadline_s
    result: Partial[str, CompressionSample] = Partial(done={})
    samples: dict[TopicPartition, _Sample] = {}

    def new(facts: ConnectionFacts, address: Address) -> BrokerConnection:
        return BrokerConnection(facts, *address, client_id=CLIENT_ID)

    starts = _starts(spec, topics, result, deadline_s)
    with contextlib.closing(BrokerPool(spec, spec.properties, new)) as brokers:
        for tp, start in starts.items():
            try:
                batches = _read_headers(brokers, tp, start, deadline)
            except Truncated:
                result.failed[tp[0]] = KafkaUnavailable(
                    f"Cluster {spec.alias}: {tp[0]} changed while it was read. Measure it again.",
                    code="changed",
                )
            except UnderstudyError as error:
                result.failed[tp[0]] = error
            else:
                if batches:
                    samples[tp] = _Sample(batches)
    _read_records(spec, samples, result, deadline)
    for (topic, _), sample in samples.items():
        if topic not in result.failed and sample.records:
            result.done[topic] = _measured(sample)
    return result


def _starts(
    spec: ClusterSpec,
    topics: Mapping[str, int],
    result: Partial[str, CompressionSample],
    deadline_s: float,
) -> dict[TopicPartition, int]:
    """The partition of each topic that has the most offsets, and the first offset to read."""
    wanted = [(topic, number) for topic, count in topics.items() for number in range(count)]
    with Admin(spec, client_id=CLIENT_ID) as admin:
        ends = admin.list_offsets(wanted, "latest", deadline_s=deadline_s)
        firsts = admin.list_offsets(wanted, "earliest", deadline_s=deadline_s)
    for tp, error in (ends.failed | firsts.failed).items():
        result.failed[tp[0]] = error
    found: dict[TopicPartition, int] = {}
    for topic, count in topics.items():
        if topic in result.failed:
            continue
        fullest = max(range(count), key=lambda n: ends.done[topic, n] - firsts.done[topic, n])
        tp = (topic, fullest)
        if ends.done[tp] > firsts.done[tp]:
            found[tp] = max(firsts.done[tp], ends.done[tp] - _LAST_OFFSETS)
    return found


def _read_headers(
    brokers: BrokerPool[BrokerConnection], tp: TopicPartition, start: int, deadline: float
) -> list[_Batch]:
    """Batches of records from `start` on, up to the size of a sample."""
    reader = LogReader(
        brokers,
        tp[0],
        partition=tp[1],
        doing=f"sample {tp[0]}-{tp[1]}",
        reply_bytes=SAMPLE_BYTES,
    )
    reader.seek("", start, -1)
    found: list[_Batch] = []
    size = 0
    for batch in reader.read_all(deadline, with_outcome=False):
        if batch.is_control:
            continue
        header = _HEADER.unpack_from(batch.data)
        codec = header[5] & DefaultRecordBatch.CODEC_MASK
        found.append(_Batch(header[0], batch.next_offset, len(batch.data), codec))
        size += len(batch.data)
        if size >= SAMPLE_BYTES:
            break
    return found


def _read_records(
    spec: ClusterSpec,
    samples: Mapping[TopicPartition, _Sample],
    result: Partial[str, CompressionSample],
    deadline: float,
) -> None:
    """The records of each sample, aborted ones too: they were sent as well."""
    left = dict(samples)
    if not left:
        return
    refused: dict[TopicPartition, UnderstudyError] = {}
    with contextlib.closing(open_consumer(spec, CLIENT_ID, committed=False)) as consumer:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(*tp, sample.batches[0].first)
                for tp, sample in left.items()
            ]
        )
        while left:
            if time.monotonic() >= deadline:
                words = f"Cluster {spec.alias}: the sample could not be read in time."
                refused |= dict.fromkeys(left, timeout_error(spec.alias, words))
                break
            for tp, message, reached in messages(consumer, spec, refused):
                if (sample := left.get(tp)) is None:
                    continue
                if message is not None and reached is not None and reached <= sample.end:
                    sample.records.append(message)
                if message is None or reached is None or reached >= sample.end:
                    del left[tp]
                    consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])
    for (topic, _), error in refused.items():
        result.failed[topic] = error


def _measured(sample: _Sample) -> CompressionSample:
    sizes: Counter[int] = Counter()
    for batch in sample.batches:
        sizes[batch.codec] += batch.size
    codec = sizes.most_common(1)[0][0]
    better = _NAMES.index(CODEC)
    same, large = _by_batch(sample), _by_size(sample.records)
    return CompressionSample(
        codec=_NAMES[codec],
        records=len(sample.records),
        batches=len(sample.batches),
        bytes=sizes.total(),
        codec_bytes=_size(same, better),
        batches_bytes=_size(large, codec),
        both_bytes=_size(large, better),
    )


def _by_batch(sample: _Sample) -> list[list[Message]]:
    """The records of each batch; compaction may have left none of it."""
    found: list[list[Message]] = []
    rest = iter(sample.records)
    record = next(rest, None)
    for batch in sample.batches:
        group = []
        while record is not None and (record.offset() or 0) < batch.next:
            group.append(record)
            record = next(rest, None)
        found.append(group)
    return [group for group in found if group]


def _by_size(records: Sequence[Message]) -> list[list[Message]]:
    """Groups as large as a large batch."""
    found: list[list[Message]] = [[]]
    size = 0
    for record in records:
        size += _OVERHEAD + len(record.key() or b"") + len(record.value() or b"")
        if size > LARGE_BATCH_BYTES and found[-1]:
            found.append([])
            size = 0
        found[-1].append(record)
    return found


def _size(groups: Iterable[Sequence[Message]], codec: int) -> int:
    """The size of these groups as batches with this codec."""
    total = 0
    for group in groups:
        builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
        for number, record in enumerate(group):
            builder.append(
                number,
                record.timestamp()[1],
                as_bytes(record.key()),
                as_bytes(record.value()),
                _headers(record),
            )
        total += len(builder.build())
    return total


def _headers(record: Message) -> list[tuple[str, bytes | None]]:
    try:
        headers: Any = record.headers() or ()  # the stubs forget the lists of pairs
    except UnicodeDecodeError:
        return []  # the client cannot decode a name that is not UTF-8
    return [(name, as_bytes(value)) for name, value in headers]
