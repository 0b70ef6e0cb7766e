"""Makes the class-data archive of the driver's Java before a runner needs it.

`python -m spark_runner.spark.class_data_archive`. Without it the first runner that stops leaves
one, if its Java writes it within the deadline of the stop. Until then each runner loads its classes
one by one, which is three quarters of the processor time of its Java's start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from mirrors.domain.transforms.evaluation import EvaluationRequest, RecordParts, SampledRecord
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.spark import context
from spark_runner.spark.java import archive_of, check_java
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.settings import SparkViews

WRITE_S: Final = 120.0
RULE: Final = TransformRule(
    topics=".*", where="length(value) > 0", value="upper(cast(value as string))"
)
_RECORD: Final = SampledRecord(0, 0, 0, False, RecordParts(b"key", b"value", ()))


def make_archive() -> Path | None:
    """Start Spark, evaluate a rule as previews and flows do, and stop; the archive, if it exists.

    None if the cache cannot be written to.
    """
    java = check_java()
    archive = archive_of(java)
    with contextlib.suppress(OSError):
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not archive.exists() and os.access(archive.parent, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="understudy-classes-") as folder:
            _run_spark(java, Path(folder))
    return archive if archive.exists() else None


def _run_spark(java: str, directory: Path) -> None:
    from spark_runner.sql.previews import evaluate  # noqa: PLC0415 - it imports pyarrow

    (directory / "events").mkdir()
    spark = context.open_context(
        name="classes",
        master="local[1]",
        directory=directory,
        java=java,
        views=SparkViews(ui=True, event_log=str(directory / "events")),
        leaves_archive=True,
    )
    try:
        jobs = SparkJobs(spark, directory)
        jobs.warm_up()
        request = EvaluationRequest(topic="topic", rules=(RULE,), rule=0, records=(_RECORD,))
        evaluate(jobs.session(), request)
        jobs.launch_with_rules((RULE,), end_at_once, group="classes", name="classes")
    finally:
        context.close_context(spark, java, deadline_s=WRITE_S)


def end_at_once(_: Iterable[Any]) -> Iterator[Any]:
    """The first worker of a job with rules that has no records."""
    from spark_runner.sql.evaluator import ArrowEvaluator  # noqa: PLC0415 - it imports pyarrow

    evaluator = ArrowEvaluator((RULE,), {})
    try:
        evaluator.end("")
        yield from evaluator.batches()
    finally:
        evaluator.close()


if __name__ == "__main__":
    found = make_archive()
    sys.stdout.write(f"{found or 'There is no archive.'}\n")
