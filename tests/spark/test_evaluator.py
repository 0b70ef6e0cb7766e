"""The worker's end of the evaluation, without Spark between both workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

from mirrors.domain.transforms.rules import TransformRule
from spark_runner.ipc.messages import PartitionFigure, SliceResult
from spark_runner.sql.evaluator import ArrowEvaluator
from spark_runner.sql.metrics import TaskMetrics
from spark_runner.sql.workers import return_records


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def stays_open(before: set[str]) -> bool:
    """Whether more stay open after at most 5 s: clients of other tests open and close theirs."""
    until = time.monotonic() + 5
    while (more := len(descriptors()) > len(before)) and time.monotonic() < until:
        time.sleep(0.01)
    return more


def new_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    """Those that still run after at most 5 s. Threads of other tests may end meanwhile."""
    until = time.monotonic() + 5
    while (found := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.01)
    return found


def test_a_reused_worker_keeps_no_descriptor_and_no_thread() -> None:
    """Spark gives a Python worker one task after the other."""
    before, threads = descriptors(), set(threading.enumerate())
    for number in range(5):
        evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
        evaluator.end(f"result {number}")
        # What Spark would pass on: the kind and the text of each row.
        rows = [batch.select(["_kind", "_text"]) for batch in evaluator.batches()]
        results = list(return_records(iter(rows)))
        assert [row.column(0).to_pylist() for row in results] == [[f"result {number}"]]
        evaluator.close()
    assert new_threads(threads) == set()
    assert not stays_open(before)


def test_without_a_second_worker_nothing_stays_behind_either() -> None:
    before, threads = descriptors(), set(threading.enumerate())
    evaluator = ArrowEvaluator([TransformRule(topics=".*", where="true")], {})
    evaluator.close()
    assert new_threads(threads) == set()
    assert not stays_open(before)


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
    evaluator.note(SliceResult(ended_because="stop", reason="", records=7), is_last=True)
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


def test_metrics_are_sent_when_they_changed_and_at_the_end() -> None:
    metrics = TaskMetrics([TransformRule(topics="ruled", where="true")])
    metrics.add_evaluated(10, 1_000)
    other = PartitionFigure(topic="other", partition=0, position=4, records=3, bytes=30)
    ruled = PartitionFigure(topic="ruled", partition=0, position=10, records=8, bytes=500)
    first = SliceResult(
        ended_because="stop", reason="", records=11, bytes=530, partitions=(other, ruled)
    )
    # Spark has counted one record of its own.
    assert metrics.take(first, is_last=False) == "12 1030 11 530"
    metrics.add_evaluated(5, 100)
    assert metrics.take(first, is_last=False) == "", "seldom"
    # A lane that failed has no totals.
    failed = SliceResult(ended_because="failed", reason="")
    assert metrics.take(failed, is_last=True) == "5 100 11 530"
    assert metrics.take(failed, is_last=True) == ""
