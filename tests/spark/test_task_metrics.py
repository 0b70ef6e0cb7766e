"""Figures of Spark's own about slices, without brokers: metrics of tasks, and free slots."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mirrors.domain.transforms.rules import TransformRule
from spark_runner.spark.java import cache_directory
from spark_runner.spark.jobs import SparkJobs
from spark_runner.sql.columns import FIGURES, FILLER, KIND, RESULT, TEXT, input_schema
from spark_runner.sql.plan import evaluated, map_in_arrow, open_session
from tests.spark.lab import wait_for
from tests.spark.local_session import builder

RULE = TransformRule(topics=".*", where="length(value) > 3")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        parent = builder("local[1]").getOrCreate()
        yield open_session(parent.sparkContext, tmp_path_factory.mktemp("jar"), cache_directory())
        parent.stop()


def test_input_adds_up_and_output_is_the_last_total(session: SparkSession) -> None:
    def rows(_: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        from spark_runner.sql.arrow_columns import arrow_schema  # noqa: PLC0415

        kinds = [FILLER, FIGURES, FILLER, FIGURES, RESULT]
        texts = [None, "9 1000 8 500", None, "5 100 11 530", "end"]
        schema = arrow_schema([RULE])
        found = {KIND: pa.array(kinds, pa.int32()), TEXT: pa.array(texts, pa.string())}
        columns = [found.get(field.name, pa.nulls(5, field.type)) for field in schema]
        yield pa.record_batch(columns, schema=schema)

    def results(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([batch.column(1)], names=["result"])

    sent = map_in_arrow(session.range(0, 1, 1, 1), rows, input_schema([RULE]))
    answer = map_in_arrow(evaluated(sent, [RULE]), results, "result string").collect()
    assert [row[0] for row in answer] == [None, None, None, None, "end"]
    store: Any = session.sparkContext._jsc.sc().statusStore()
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    stage = store.lastStageAttempt(0)
    # With the row that starts the task.
    assert (stage.inputRecords(), stage.inputBytes()) == (15, 1_100)
    assert (stage.outputRecords(), stage.outputBytes()) == (11, 530)


def test_a_slot_is_free_until_a_task_has_it(session: SparkSession, tmp_path: Path) -> None:
    jobs = SparkJobs(session.sparkContext, tmp_path)
    assert jobs.free_slots() == 1
    go_on = tmp_path / "go on"

    def waiting(texts: Iterable[str]) -> Iterator[str]:
        until = time.monotonic() + 60
        while not go_on.exists() and time.monotonic() < until:
            time.sleep(0.05)
        yield from texts

    job = threading.Thread(
        target=jobs.launch_one, args=(waiting, "{}"), kwargs={"group": "slots", "name": "slots"}
    )
    job.start()
    wait_for(lambda: jobs.free_slots() == 0, seconds=60)
    go_on.touch()
    job.join(60)
    wait_for(lambda: jobs.free_slots() == 1, seconds=60)
