"""Spark within the process of the tests."""

from __future__ import annotations

from pyspark.sql import SparkSession

# Quick to start beats quick under load. The first session of a process starts its Java.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def builder(master: str) -> SparkSession.Builder:
    """Without Spark's pages."""
    found = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    return found.config("spark.driver.extraJavaOptions", _JVM)
