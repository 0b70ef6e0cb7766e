"""The worker's end of the evaluation, without Spark between both workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

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


def test_the_result_is_returned_when_the_copy_loop_has_ended_before() -> None:
    evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
    evaluator.end("refused")
    rows = [batch.select(["_kind", "_text"]) for batch in evaluator.batches()]
    # Before the second worker has connected.
    evaluator.close()
    results = list(return_records(iter(rows)))
    assert [row.column(0).to_pylist() for row in results] == [["refused"]]


def test_the_result_is_returned_when_the_copy_loop_ends_while_results_are_sent() -> None:
    evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
    # What a last request of the copy loop would send.
    evaluator._flush()
    evaluator.end("stopped")
    rows = [batch.select(["_kind", "_text"]) for batch in evaluator.batches()]

    def passed_on() -> Iterator[pa.RecordBatch]:
        yield rows[0]
        evaluator.close()
        # Until its reader has noticed that, and closed the socket.
        for row in rows[1:]:
            time.sleep(0.05)
            yield row

    results = list(return_records(passed_on()))
    assert [row.column(0).to_pylist() for row in results] == [["stopped"]]
