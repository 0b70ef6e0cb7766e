"""Comparisons that a runner makes in Spark: while it copies, after its death, until an abort."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from mirrors import launcher
from mirrors.models import Cluster, Comparison, ComparisonFinding, Flow, Runner
from mirrors.services import process_liveness
from mirrors.services.comparison import lifecycle, worker
from tests.spark.lab import Flow as Copy
from tests.spark.lab import Lab, wait_for
from tests.spark.reading import end_offsets

pytestmark = pytest.mark.django_db


def row_of(lab: Lab, copy: Copy, settings: Any) -> Flow:
    """The flow as the control plane knows it."""
    settings.RUNNER_ROOT = lab.directory.parent
    source, target = (
        Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
        for spec in (copy.job.source, copy.job.target)
    )
    runner = Runner.objects.create(
        name=lab.directory.name,
        master="local[1]",
        slots=1,
        state="ready",
        host=settings.UNDERSTUDY_HOST,
    )
    return Flow.objects.create(
        source=source, target=target, runner=runner, properties=copy.job.properties
    )


def advance(
    run: Comparison, until: Callable[[Comparison], object] = lambda run: run.ended_at
) -> None:
    """Look at the comparison as workers do, until it is over, or `until` says so."""
    stop = time.monotonic() + 120
    while True:
        process_liveness.record_process(kind=process_liveness.RECONCILE_WORKER, name="w", pid=1)
        more = worker.advance_comparison(comparison_id=run.pk)
        run.refresh_from_db()
        if until(run):
            return
        assert more is not None, run.reason
        assert time.monotonic() < stop, (run.progress, run.engine_reason)
        time.sleep(more.wait_s)


def test_the_runner_compares_while_it_copies_and_names_a_foreign_record(
    lab: Lab, settings: Any
) -> None:
    copy = lab.flow(tasks_max="1")
    topic = lab.create(copy.topic("orders"), 3)
    for partition in range(3):
        lab.write(topic, [f"v{number}" * 20 for number in range(4000)], partition)
    copy.start().wait_in_sync(topic)
    flow = row_of(lab, copy, settings)

    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run, lambda run: run.request)
    # The same runner copies on.
    lab.write(topic, ["later"])
    copy.wait_in_sync(topic)
    advance(run)

    assert (run.state, run.verdict, run.engine) == ("succeeded", "same", "spark"), (
        run.reason + run.engine_reason
    )
    assert run.read_bytes > 2 * 12_000 * 100
    parts = list(run.parts.all())
    assert sum(part.source_records for part in parts) == 12_000
    assert all(part.source_digest == part.target_digest != "" for part in parts)
    folder = lab.directory / launcher.COMPARISONS.folder
    assert list(folder.iterdir()) == []
    # A worker without a runner finds the same digests.
    Runner.objects.update(state="absent")
    other = lifecycle.request_comparison(flow=flow, who="ann", topics=[topic])
    advance(other)
    assert (other.engine, other.verdict) == ("worker", "same")
    assert "does not run" in other.engine_reason
    digests = {part.partition: part.source_digest for part in other.parts.all()}
    assert [digests[part.partition] for part in parts[1:]] == [
        part.source_digest for part in parts[1:]
    ]
    Runner.objects.update(state="ready")
    lab.write_target(copy.remote(topic), ["foreign"])
    foreign = end_offsets(lab.target, copy.remote(topic))[copy.remote(topic), 0] - 1
    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)
    finding = ComparisonFinding.objects.get(comparison=run, about="content")
    assert (finding.kind, finding.partition) == ("extra", 0)
    assert abs(finding.target_offset - foreign) <= 1
    assert run.engine == "spark"
    copy.stop()


def test_a_comparison_goes_on_after_the_runner_was_killed_and_ends_when_it_is_aborted(
    lab: Lab, settings: Any
) -> None:
    copy = lab.flow(tasks_max="1")
    topic = lab.create(copy.topic("large"), 2)
    for partition in range(2):
        lab.write(topic, ["v" * 500] * 20_000, partition)
    copy.start().wait_in_sync(topic)
    flow = row_of(lab, copy, settings)
    copy.stop()
    whole = {"records": None, "seconds": 600}
    run = lifecycle.request_comparison(flow=flow, who="ann", megabytes_per_second=4, **whole)
    advance(run, lambda run: run.read_bytes)
    lab_pid = lab.process.pid
    os.kill(lab_pid, signal.SIGKILL)
    wait_for(lambda: not launcher.is_alive(lab_pid, lab.process.start_tick), what="the death")
    before = run.read_bytes
    lab.start_if_ended()
    Comparison.objects.filter(pk=run.pk).update(megabytes_per_second=None)
    advance(run)
    assert (run.state, run.verdict, run.engine) == ("succeeded", "same", "spark"), (
        run.reason + run.engine_reason
    )
    assert run.read_bytes > before
    assert [part.source_records for part in run.parts.all()] == [20_000, 20_000]

    run = lifecycle.request_comparison(flow=flow, who="ann", megabytes_per_second=1, **whole)
    advance(run, lambda run: run.request)
    lifecycle.abort_comparison(run=run, who="ann")
    advance(run)
    assert (run.state, run.reason) == ("aborted", "Aborted by ann.")
    folder = lab.directory / launcher.COMPARISONS.folder
    wait_for(lambda: not list(folder.iterdir()), seconds=10, what="the end of the request")
