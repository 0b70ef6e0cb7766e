"""Spark's own list of functions, and its analysis of expressions that pass without Spark."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
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
from spark_runner.spark.java import cache_directory
from spark_runner.sql.columns import SCHEMAS
from spark_runner.sql.plan import open_session, result_of
from tests.domain.transform_cases import GOOD
from tests.spark.local_session import builder


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = builder("local[1]").getOrCreate()
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


@pytest.fixture(scope="module")
def rules_session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder = tmp_path_factory.mktemp("functions")
    return open_session(spark.sparkContext, folder, cache_directory())


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'getProperty', 'user.dir')",
        "`java_method`('java.lang.System', 'getProperty', 'user.dir')",
        "system.builtin.reflect('java.lang.System', 'getProperty', 'user.dir')",
        "identifier('try_' || 'reflect')('java.lang.System', 'getProperty', 'user.dir')",
        # Read by Spark as a call, by sqlglot as a comment.
        "concat('a' /* /*+ */, reflect('java.lang.System', 'getProperty', 'user.dir')) -- */)",
        "uuid()",
    ],
)
def test_the_session_of_rules_has_no_refused_function(
    rules_session: SparkSession, text: str
) -> None:
    """Even if the check without Spark missed one."""
    with pytest.raises(AnalysisException, match=r"UNRESOLVED_ROUTINE|system.\S+builtin"):
        rules_session.range(1).select(result_of(text, "value")).collect()


def test_no_variable_of_the_environment_gets_into_an_expression(
    rules_session: SparkSession,
) -> None:
    for text in ("${env:PATH}", "${system:user.dir}", "${spark.app.name}", "${spark:x}"):
        rows = rules_session.range(1).select(result_of(f"'{text}'", "value")).collect()
        assert bytes(rows[0][0]).decode() == text


def test_what_passes_is_analyzed_in_the_session_of_rules(rules_session: SparkSession) -> None:
    columns = [lit(None).cast(kind).alias(name) for name, kind in COLUMNS.items()]
    # Where schemas are, and a helper's secret, are columns of the job.
    columns.append(lit(None).cast("string").alias(SCHEMAS))
    rows = rules_session.range(1).select(*columns)
    for field, text in GOOD:
        if "env:" not in text and "file:" not in text:
            rows.select(result_of(text, field))


def test_the_functions_are_compiled_once_for_all_runners_that_share_a_cache(
    spark: SparkSession, tmp_path: Path
) -> None:
    def open_in(directory: str, cache: str) -> dict[Path, int]:
        """The compiled functions after it."""
        open_session(spark.sparkContext, tmp_path / directory, tmp_path / cache)
        return {path: path.stat().st_ino for path in tmp_path.rglob("*.jar")}

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "file").write_text("no directory")
    # Without a cache, a runner has its own.
    found = open_in("one", "file")
    [own] = found
    assert own.parent.name == "one"
    assert "understudy/sql/RecordFunctions.class" in zipfile.ZipFile(own).namelist()
    assert open_in("one", "file") == found
    # One that was written in part is replaced.
    (tmp_path / "cache").mkdir()
    cached = tmp_path / "cache" / own.name
    cached.write_bytes(own.read_bytes()[:-100])
    found = open_in("two", "cache")
    assert found.keys() == {own, cached}
    assert zipfile.is_zipfile(cached)
    assert open_in("two", "cache") == found
    assert list(cached.parent.iterdir()) == [cached]
