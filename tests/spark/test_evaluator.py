"""The worker's end of the evaluation, without Spark between both workers."""

from __future__ import annotations

import os
import threading
import time

from mirrors.domain.transforms.rules import TransformRule
from spark_runner.sql.evaluator import ArrowEvaluator, return_records


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_reused_worker_keeps_no_descriptor_and_no_thread() -> None:
    """Spark gives a Python worker one task after the other."""
    before, threads = descriptors(), threading.active_count()
    for number in range(5):
        evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
        evaluator.end(f"result {number}")
        # What Spark would pass on: the kind and the text of each row.
        rows = [batch.select(["_kind", "_text"]) for batch in evaluator.batches()]
        results = list(return_records(iter(rows)))
        assert [row.column(0).to_pylist() for row in results] == [[f"result {number}"]]
        evaluator.close()
    until = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == threads
    assert len(descriptors()) == len(before)


def test_without_a_second_worker_nothing_stays_behind_either() -> None:
    before, threads = descriptors(), threading.active_count()
    evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
    evaluator.close()
    until = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert (len(descriptors()), threading.active_count()) == (len(before), threads)
