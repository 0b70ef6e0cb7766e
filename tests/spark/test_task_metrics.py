"""The figures of a slice with rules are Spark's own metrics of its task: without brokers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mirrors.domain.transforms.rules import TransformRule
from spark_runner.sql.columns import FIGURES, FILLER, KIND, RESULT, TEXT, input_schema
from spark_runner.sql.plan import evaluated, map_in_arrow, open_session

RULE = TransformRule(topics=".*", where="length(value) > 3")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        parent = builder.getOrCreate()
        yield open_session(parent.sparkContext, tmp_path_factory.mktemp("jar"))
        parent.stop()


def test_input_adds_up_and_output_is_the_last_total(session: SparkSession) -> None:
    def rows(_: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        from spark_runner.sql.evaluator import arrow_schema  # noqa: PLC0415

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
