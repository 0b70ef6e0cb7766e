"""Spark's own list of functions, and its analysis of expressions that pass without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, lit, udf
from pyspark.sql.types import BinaryType

from mirrors.domain.transforms.functions import (
    COLUMNS,
    HELPERS,
    REFUSED_FUNCTIONS,
    SPARK_FUNCTIONS,
)
from mirrors.domain.transforms.sql import GRAMMAR
from tests.domain.transform_cases import GOOD


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    for name, helper in HELPERS.items():
        result = BinaryType() if helper.result == "value" else helper.result
        spark.udf.register(name, udf(lambda *given: given[0], result))
    columns = [lit(None).cast(kind).alias(name) for name, kind in COLUMNS.items()]
    return spark.range(1).select(*columns)


def test_each_function_of_spark_is_allowed_or_refused(spark: SparkSession) -> None:
    rows = spark.sql("show system functions").collect()
    names = {row[0] for row in rows if re.fullmatch(r"\w+", row[0])}
    listed = SPARK_FUNCTIONS | REFUSED_FUNCTIONS.keys()
    assert names - listed - GRAMMAR == set()
    assert listed - names == set()
    assert not names & HELPERS.keys(), "Spark's function would win over the helper"


def test_what_passes_without_spark_has_the_type_that_it_needs(records: DataFrame) -> None:
    wanted = {"where": {"boolean"}, "headers": {COLUMNS["headers"]}}
    for field, text in GOOD:
        (found,) = records.select(expr(text).alias("found")).dtypes
        assert found[1] in wanted.get(field, {"binary", "string"}), text
