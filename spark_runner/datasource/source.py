"""The format `understudy` of Spark's Python data source API: batch and streaming reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    ReadLimit,
)
from pyspark.sql.types import StructType

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.patterns.matcher import NamePatterns
from spark_runner.datasource.offset_map import OffsetLookup, PartitionRuns, read_runs
from spark_runner.datasource.options import (
    EARLIEST,
    Bound,
    InvalidOption,
    Options,
    offsets_of,
    read_options,
)
from spark_runner.datasource.ranges import Range, find_ranges, split
from spark_runner.datasource.records import DDL, RecordRange, read_records
from spark_runner.datasource.service import FlowView, Service

_OWED = "owed_records bigint, owed_certainty string, time_lag_ms bigint"
_SCHEMAS = {
    "records": DDL,
    "runs": (
        "topic string, remote_topic string, partition int, upstream bigint, downstream bigint, "
        "length bigint"
    ),
    "topics": f"topic string, remote_topic string, state string, reason string, {_OWED}",
    "partitions": (
        "topic string, remote_topic string, partition int, state string, position bigint, "
        f"source_stable_end bigint, {_OWED}"
    ),
    "groups": (
        "group string, topic string, remote_topic string, partition int, source_offset bigint, "
        "translated_offset bigint, target_offset bigint, re_reads bigint, outcome string"
    ),
    "gaps": (
        "id bigint, topic string, partition int, kind string, state string, count bigint, "
        "first_lost bigint, last_lost bigint, reason string"
    ),
}


class UnderstudySource(DataSource):
    """`spark.read.format("understudy")` and `spark.readStream.format("understudy")`."""

    @classmethod
    def name(cls) -> str:
        return "understudy"

    def schema(self) -> str:
        return _SCHEMAS[read_options(self.options).table]

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        return (
            _RecordReader(options) if options.table == "records" else _TableReader(options, schema)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options)
        if options.table != "records":
            raise InvalidOption(f"Only records can be streamed, not the table {options.table}.")
        return _RecordStream(options)


class _RecordReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        plan = _Plan(self._options)
        ranges = plan.ranges(self._options.start, self._options.end)
        return list(plan.tasks(ranges))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _RecordStream(DataSourceStreamReader):
    """Offsets are JSON by topic and partition of the side that is read. New partitions begin at
    their first record."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:
        found = _Plan(self._options).ranges(self._options.start, self._options.end)
        return _by_topic({each.tp: each.first for each in found})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        found = _Plan(self._options).ranges(EARLIEST, self._options.end)
        return _by_topic({each.tp: each.end for each in found})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        plan = _Plan(self._options)
        first, last = (offsets_of(json.dumps(each), "offset") for each in (start, end))
        ranges = [each for each in plan.ranges(first, last) if each.tp[0] in last]
        return list(plan.tasks(ranges))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Without any partition Spark asks for one that it made itself.
    return read_records(partition) if isinstance(partition, RecordRange) else iter(())


class _Plan:
    """One look at the flow and the cluster that is read. Made on the driver."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._flow: FlowView = Service(options).flow()
        self._is_source = options.side == "source"
        self._spec = self._flow.source if self._is_source else self._flow.target
        wanted = _patterns(options)
        # The topics that are read, each with its source topic.
        self._topics = {
            name: topic
            for topic, remote in self._flow.remote_topics.items()
            if wanted is None or wanted.matches(topic)
            for name in ([topic] if self._is_source else remote)
        }
        if options.topics and not self._topics:
            raise InvalidOption(
                f"{self._flow.name} replicates no topic that matches {options.topics!r}."
            )

    def ranges(self, start: Bound, end: Bound) -> list[Range]:
        partitions = [
            (read, number)
            for read, topic in sorted(self._topics.items())
            for each, number in self._flow.partitions
            if each == topic
        ]
        return find_ranges(self._spec, partitions, start, end)

    def tasks(self, ranges: list[Range]) -> Iterator[RecordRange]:
        ranges = [each for each in ranges if each.first < each.end]
        partitions = {(self._topics[each.tp[0]], each.tp[1]) for each in ranges}
        runs: Mapping[TopicPartition, PartitionRuns] = {}
        if self._options.with_runs and partitions:
            runs = read_runs(self._flow, partitions)
        for each in split(ranges, self._options.records_per_task):
            topic = self._topics[each.tp[0]]
            known = runs.get((topic, each.tp[1]))
            yield RecordRange(
                spec=self._spec,
                side=self._options.side,
                topic=topic,
                read_topic=each.tp[0],
                remote_topic=self._remote_topic(each),
                partition=each.tp[1],
                first=each.first,
                end=each.end,
                lookup=OffsetLookup() if known is None else self._lookup(known, each),
            )

    def _remote_topic(self, each: Range) -> str | None:
        """The target topic of records that no run has; None if there are several."""
        if not self._is_source:
            return each.tp[0]
        remote = self._flow.remote_topics[each.tp[0]]
        return remote[0] if len(remote) == 1 else None

    def _lookup(self, known: PartitionRuns, each: Range) -> OffsetLookup:
        if self._is_source:
            return known.of_source(each.first, each.end)
        return known.of_target(each.tp[0], each.first, each.end)


class _TableReader(DataSourceReader):
    """Rows of the control plane, or the offset runs: read by one task."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = schema.names

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        rows = self._runs() if self._options.table == "runs" else self._rows()
        for row in rows:
            yield tuple(row.get(name) for name in self._names)

    def _rows(self) -> Iterator[dict[str, Any]]:
        wanted = _patterns(self._options)
        for row in Service(self._options).rows(self._options.table):
            if wanted is None or wanted.matches(row["topic"]):
                owed = row.get("owed") or {}
                yield {
                    **row,
                    "owed_records": owed.get("records"),
                    "owed_certainty": owed.get("certainty"),
                    "time_lag_ms": owed.get("time_lag_ms"),
                }

    def _runs(self) -> Iterator[dict[str, Any]]:
        flow = Service(self._options).flow()
        wanted = _patterns(self._options)
        partitions = {each for each in flow.partitions if wanted is None or wanted.matches(each[0])}
        for (topic, number), known in sorted(read_runs(flow, partitions).items()):
            for remote, runs in known.runs.items():
                for run in runs:
                    place = {"topic": topic, "remote_topic": remote, "partition": number}
                    yield place | run._asdict()


def _patterns(options: Options) -> NamePatterns | None:
    """None: every topic."""
    elements = [each.strip() for each in options.topics.split(",") if each.strip()]
    try:
        return NamePatterns(elements) if elements else None
    except ValueError as error:
        raise InvalidOption(f"The option 'topics' {error}.") from None


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = at
    return found
