"""Flows as DataFrames: `spark.read.format("understudy")`. `docs/spark.md` has examples.

from spark_runner.datasource import register

register(spark)
spark.read.format("understudy").option("flow", "primary->backup").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the format `understudy` known to this session. Needs pyarrow, as Spark does for it."""
    # pyarrow takes 50 MB: only programs that read DataFrames load it.
    from spark_runner.datasource.source import UnderstudySource  # noqa: PLC0415

    spark.dataSource.register(UnderstudySource)


__all__ = ["register"]
