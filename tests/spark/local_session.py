"""Spark within the process of the tests, and the class-data archive of every Spark of the tests."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_runner.spark.java import JVM, archive_of, cache_directory, check_java, read_option


def builder(master: str) -> SparkSession.Builder:
    """Without Spark's pages. The first session of a process starts its Java."""
    found = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    # It has imported what tasks need, before it forks.
    found = found.config("spark.python.daemon.module", "spark_runner.spark.worker_daemon")
    # As in a runner: no functions of MLlib.
    found = found.config("spark.sql.extensions.test.loadFromCp", "false")
    archive = class_data_archive()
    options = JVM if archive is None else (*JVM, read_option(archive))
    return found.config("spark.driver.extraJavaOptions", " ".join(options))


@functools.cache
def class_data_archive() -> Path | None:
    """Made by the first session that needs it; without it each Spark starts three times slower."""
    archive = archive_of(check_java())
    if archive.exists():
        return archive
    try:
        cache_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (cache_directory() / "spark-tests.lock").open("a")
    except OSError:
        return None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            command = [sys.executable, "-m", "spark_runner.spark.class_data_archive"]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, check=False, timeout=200)
    return archive if archive.exists() else None
