"""Reads the records of one range for one Spark task, as Arrow batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.reading.ranges import KafkaRecord, read_range
from spark_runner.datasource.offset_map import OffsetLookup
from spark_runner.datasource.options import Side

CLIENT_ID = "understudy-spark"
# A batch ends at this number of records or bytes.
_BATCH, _BATCH_BYTES = 10_000, 16 << 20
# Seconds without any progress before the task fails; Spark tries it again.
_PATIENCE_S = 60.0

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("remote_topic", pa.string()),
        ("partition", pa.int32()),
        ("upstream_offset", pa.int64()),
        ("downstream_offset", pa.int64()),
        ("replication", pa.string()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
    ]
)
DDL = (
    "topic string, remote_topic string, partition int, upstream_offset bigint, "
    "downstream_offset bigint, replication string, timestamp timestamp, timestamp_type string, "
    "key binary, value binary, headers array<struct<key: string, value: binary>>"
)


@dataclasses.dataclass
class RecordRange(InputPartition):
    """One task: offsets of one partition of one cluster, from `first` up to but without `end`.

    It travels to the executor, so `spec` has references to secrets, which are resolved there.
    `remote_topic`: None if the records of a source partition go to several topics.
    """

    spec: ClusterSpec
    side: Side
    topic: str
    read_topic: str
    remote_topic: str | None
    partition: int
    first: int
    end: int
    lookup: OffsetLookup


def read_records(wanted: RecordRange) -> Iterator[pa.RecordBatch]:
    """The committed records of the range in offset order. Raises UnderstudyError."""
    batch: list[KafkaRecord] = []
    size = 0
    for record in read_range(
        wanted.spec,
        (wanted.read_topic, wanted.partition),
        wanted.first,
        wanted.end,
        client_id=CLIENT_ID,
        patience_s=_PATIENCE_S,
    ):
        batch.append(record)
        size += len(record.value or b"") + len(record.key or b"")
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield _arrow(wanted, batch)
            batch, size = [], 0
    if batch:
        yield _arrow(wanted, batch)


def _arrow(wanted: RecordRange, batch: list[KafkaRecord]) -> pa.RecordBatch:
    own = [record.offset for record in batch]
    found = [wanted.lookup.of(offset) for offset in own]
    other = [None if each is None else each.offset for each in found]
    from_source = wanted.side == "source"
    count = len(batch)
    columns: list[Any] = [
        [wanted.topic] * count,
        [wanted.remote_topic if each is None else each.remote_topic for each in found],
        [wanted.partition] * count,
        own if from_source else other,
        other if from_source else own,
        [wanted.lookup.replication(*pair) for pair in zip(own, found, strict=True)],
        [record.timestamp * 1000 for record in batch],
        ["LogAppendTime" if record.is_append_time else "CreateTime" for record in batch],
        [record.key for record in batch],
        [record.value for record in batch],
        [[{"key": key, "value": value} for key, value in record.headers] for record in batch],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
