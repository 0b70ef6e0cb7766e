"""Finds conflicting keys of two opposite flows: a DataFrame over the records of both sides.

Spark sorts the records of each key by time. A conflict is a record that a producer wrote at most
`window_ms` after a record of a producer on the other side, with no other written record between
them. So a key with n records on each side costs n comparisons, not n times n.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from mirrors import launcher
from mirrors.domain.comparison.conflicts import (
    MOST_KEYS,
    SOURCE,
    TARGET,
    ConflictingKey,
    ConflictRequest,
    ConflictResponse,
    ReadRange,
    Write,
    limit_sentence,
)
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.slots import Slots
from spark_runner.sql.plan import first_line, map_in_arrow

log = logging.getLogger("spark_runner.comparison")

_RECORD: Final = ("partition", "offset", "at", "value")
# Holders of slots are flows, and comparisons with negative numbers.
_HOLDER: Final = -(1 << 60)


class ConflictSearches:
    """Answers one request at a time, in a thread of its own."""

    def __init__(self, directory: Path, jobs: SparkJobs, slots: Slots) -> None:
        self._directory = directory
        self._jobs, self._slots = jobs, slots
        self._thread: threading.Thread | None = None
        (directory / launcher.CONFLICTS.folder).mkdir(mode=0o700, exist_ok=True)
        # The report of a predecessor's request fails, and is requested again.
        launcher.CONFLICTS.remove_old(directory, 0)

    def poll(self) -> None:
        """Begin with the next request, if there is one and none is being answered."""
        if self._thread is not None and self._thread.is_alive():
            return
        exchange = launcher.CONFLICTS
        for number in exchange.open_requests(self._directory):
            if not exchange.response_path(self._directory, number).exists():
                self._thread = threading.Thread(
                    target=self._answer, args=(number,), name="conflicts", daemon=True
                )
                self._thread.start()
                return

    def _answer(self, number: int) -> None:
        exchange = launcher.CONFLICTS
        path = exchange.request_path(self._directory, number)
        try:
            request = ConflictRequest.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except launcher.NOT_OURS as error:
            reason = f"The runner cannot read the request ({type(error).__name__})."
            response = ConflictResponse(error=f"{reason} Restart the runner after an update.")
        else:
            response = self._search(number, request)
        # A report that was given up has no request any more.
        if path.exists():
            launcher.write_whole(
                exchange.response_path(self._directory, number), response.to_json()
            )

    def _search(self, number: int, request: ConflictRequest) -> ConflictResponse:
        free = self._slots.free_for(_HOLDER)
        tasks = min(free, len(os.sched_getaffinity(0)), len(request.ranges))
        if not request.ranges:
            return ConflictResponse()
        if tasks <= 0 or not self._slots.hold(_HOLDER, tasks):
            return ConflictResponse(
                error="All of the runner's slots copy, so none is free to read. Give it more slots."
            )
        group = f"conflicts-{number}"
        name = f"{request.name} looks for conflicting keys"
        try:
            session = self._jobs.named_session(group, name)
            session.conf.set("spark.sql.shuffle.partitions", str(tasks))
            return find(session, request, tasks)
        except (PySparkException, Py4JError, OSError, ImportError) as error:
            # The rest of its text may quote a record.
            log.warning("Conflict report %s failed: %s", number, type(error).__name__)
            return ConflictResponse(error=f"Spark could not find conflicts: {first_line(error)}.")
        finally:
            self._slots.release(_HOLDER)


def find(session: SparkSession, request: ConflictRequest, tasks: int) -> ConflictResponse:
    """Blocks. Raises what Spark raises."""
    # pyarrow takes memory that runners without reports do not need.
    from spark_runner.comparison.written_records import SCHEMA, read_rows  # noqa: PLC0415

    reader = functools.partial(read_rows, request.to_json(), tasks)
    rows = map_in_arrow(session.range(0, tasks, 1, tasks), reader, SCHEMA)
    return _response(request, conflicting(rows, request.window_ms).collect())


def conflicting(rows: DataFrame, window_ms: int, most: int = MOST_KEYS) -> DataFrame:
    """One row for each key with a conflict, the newest `most`, and one per topic for what was read.

    Ordered by time, copies last, so that a written record is never preceded by a copy.
    """
    record = f.struct("side", *_RECORD)
    by_key = Window.partitionBy("topic", "key").orderBy("copied", "at", "side", "offset")
    before = f.lag(record).over(by_key)
    follows = (
        f.col("key").isNotNull()
        & ~f.col("copied")
        & (f.col("before.side") != f.col("side"))
        & (f.col("at") - f.col("before.at") <= window_ms)
    )
    marked = rows.withColumn("before", before).withColumn(
        "conflict", f.coalesce(follows, f.lit(False))
    )
    newest = f.struct("at", "offset", "before", record.alias("after"))
    found = marked.groupBy("topic", "key").agg(
        f.first("text").alias("text"),
        f.collect_list(f.when(f.col("key").isNull(), f.col("text"))).alias("ranges"),
        f.count_if("conflict").alias("conflicts"),
        f.max(f.when(f.col("conflict"), newest)).alias("newest"),
        *(
            # Not by time: a copy may come after a newer record, and then both sides differ.
            f.max_by(f.struct(*_RECORD), f.when(f.col("side") == side, f.col("offset"))).alias(
                f"last{side}"
            )
            for side in (SOURCE, TARGET)
        ),
    )
    kept = found.where(f.col("key").isNull() | (f.col("conflicts") > 0))
    everything = Window.partitionBy(f.lit(1))
    counted = kept.withColumn("keys", f.count("key").over(everything))
    place = f.row_number().over(
        everything.orderBy(f.col("key").isNotNull(), f.desc("newest.at"), "topic", "key")
    )
    topics = f.count_if(f.col("key").isNull()).over(everything)
    return counted.withColumn("place", place - topics).where(f.col("place") <= most)


def _response(request: ConflictRequest, rows: Iterable[Any]) -> ConflictResponse:
    found: list[ConflictingKey] = []
    keys = records = copies = 0
    limits: list[str] = []
    for row in rows:
        keys = row["keys"]
        if row["key"] is None:
            for facts in map(json.loads, row["ranges"]):
                records, copies = records + facts["records"], copies + facts["copies"]
                one = ReadRange(*facts["range"])
                alias = (request.source, request.target)[one.side].alias
                begin, refusal = facts["begin"], facts["refusal"]
                if sentence := limit_sentence(alias, one, begin=begin, refusal=refusal):
                    limits.append(sentence)
        else:
            found.append(_key(row))
    return ConflictResponse(
        keys=keys, found=tuple(found), records=records, copies=copies, limits=tuple(sorted(limits))
    )


def _key(row: Any) -> ConflictingKey:
    sides = {one["side"]: _write(one) for one in (row["newest"]["before"], row["newest"]["after"])}
    return ConflictingKey(
        topic=row["topic"],
        digest=bytes(row["key"]).hex(),
        text=row["text"],
        conflicts=row["conflicts"],
        source=sides[SOURCE],
        target=sides[TARGET],
        source_last=_write(row[f"last{SOURCE}"]),
        target_last=_write(row[f"last{TARGET}"]),
    )


def _write(row: Any) -> Write:
    return Write(*(row[name] for name in _RECORD))
