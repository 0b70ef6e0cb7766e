"""Rows of records for a search of conflicting keys: read in a Spark task, newest first.

A row has digests of key and value, and whether a flow copied the record from the other side.
Records without a key are left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from mirrors.domain.comparison.conflicts import NO_VALUE, ConflictRequest, ReadRange, key_text
from mirrors.domain.comparison.record_content import key_and_value
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.kafka.protocol.metadata import NO_ID, id_text
from spark_runner.comparison.range_reader import PATIENCE_S, LogBatch, RangeReader
from spark_runner.engine.source.replicated_filter import ReplicatedRuns
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.task import prepare_worker

# A row with a key is a record. One without has in `text` what was read of a range, as JSON.
SCHEMA: Final = (
    "side int, topic string, key binary, text string, partition int, offset long, at long, "
    "value string, copied boolean"
)
_ARROW: Final = pa.schema(
    [
        ("side", pa.int32()),
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("text", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("at", pa.int64()),
        ("value", pa.string()),
        ("copied", pa.bool_()),
    ]
)
# Offsets that are read at once. The runs are read after them, so that each copy has its run.
CHUNK: Final = 5000
_DIGEST: Final = 16

Row = tuple[int, str, bytes | None, str, int, int, int, str, bool]


def read_rows(text: str, tasks: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function that Spark runs, in `tasks` tasks: the id of the task in, rows out."""
    prepare_worker()
    request = ConflictRequest.from_json(text)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for rows in _rows(request, request.ranges[number::tasks]):
                yield _batch(rows)


def _rows(request: ConflictRequest, ranges: Sequence[ReadRange]) -> Iterator[list[Row]]:
    """Never raises: what cannot be read is in the row of its range."""
    budget = request.most_bytes // len(request.ranges) if request.ranges else 0
    for side, spec in enumerate((request.source, request.target)):
        mine = [one for one in ranges if one.side == side]
        if not mine:
            continue
        with contextlib.closing(ClusterClient(spec)) as cluster:
            try:
                cluster.open(time.monotonic() + PATIENCE_S)
                ids = _topic_ids(cluster, {one.topic for one in mine})
                runs = ReplicatedRuns(cluster, [(ids[one.topic], one.partition) for one in mine])
            except UnderstudyError as error:
                for one in mine:
                    yield [_summary(one, refusal=error.message)]
                continue
            for one in mine:
                yield from _rows_of_range(cluster, one, ids[one.topic], runs, budget)


def _topic_ids(cluster: ClusterClient, topics: set[str]) -> dict[str, str]:
    views = cluster.describe(sorted(topics), time.monotonic() + PATIENCE_S)
    found = {}
    for topic in topics:
        view = views.get(topic)
        if view is None or view.error or view.topic_id == NO_ID:
            raise KafkaRefused(
                f"Cluster {cluster.alias} has no topic {topic}, or gives no topic ids. Check that "
                "the topic exists, and that the flow may describe it.",
                code="unknown_topic",
            )
        found[topic] = id_text(view.topic_id)
    return found


def _rows_of_range(
    cluster: ClusterClient, one: ReadRange, topic_id: str, runs: ReplicatedRuns, budget: int
) -> Iterator[list[Row]]:
    """From the end backwards, so that a limit leaves out the oldest records."""
    records = copies = size = 0
    end, refusal = one.end, ""
    try:
        while end > one.first and size < budget:
            begin = max(one.first, end - CHUNK)
            found = _read(cluster, one, begin, end)
            runs.prepare(time.monotonic() + PATIENCE_S)
            rows: list[Row] = []
            for batch in found:
                copied = runs.is_copied((topic_id, one.partition), batch.header)
                for record in batch.records():
                    if not begin <= record.offset < end:
                        continue
                    records, copies = records + 1, copies + copied
                    size += len(record.rest)
                    key, value = key_and_value(bytes(record.rest))
                    if key is not None:
                        place = one.partition, record.offset, record.timestamp
                        rows.append(
                            (one.side, one.topic, _hash(key).digest(), key_text(key),
                             *place, _value(value), copied)
                        )  # fmt: skip
            yield rows
            end = begin
    except UnderstudyError as error:
        refusal = error.message
    except (ValueError, IndexError) as error:
        refusal = (
            f"Cluster {cluster.alias}: {one.topic}-{one.partition} has a damaged batch between "
            f"offsets {one.first} and {end} ({error})."
        )
    yield [_summary(one, records=records, copies=copies, begin=end, refusal=refusal)]


def _read(cluster: ClusterClient, one: ReadRange, begin: int, end: int) -> list[LogBatch]:
    reader = RangeReader(cluster, (one.topic, one.partition), begin, end, committed=True)
    next_: Callable[[], LogBatch | None] = reader.next
    try:
        return list(iter(next_, None))
    finally:
        reader.close()


def _summary(
    one: ReadRange, *, records: int = 0, copies: int = 0, begin: int = -1, refusal: str = ""
) -> Row:
    """`begin`: what is below was not read."""
    facts: dict[str, Any] = {
        "range": one,
        "records": records,
        "copies": copies,
        "begin": one.end if begin < 0 else begin,
        "refusal": refusal,
    }
    return (one.side, one.topic, None, json.dumps(facts), one.partition, 0, 0, "", False)


def _hash(data: bytes) -> Any:
    return hashlib.blake2b(data, digest_size=_DIGEST)


def _value(value: bytes | None) -> str:
    return NO_VALUE if value is None else str(_hash(value).hexdigest())


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(_ARROW)
    arrays = [pa.array(list(found), kind.type) for found, kind in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
