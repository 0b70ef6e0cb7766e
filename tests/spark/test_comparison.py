"""Comparisons that a runner makes in Spark: while it copies, after its death, until an abort."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.models import Cluster, Comparison, ComparisonFinding, Flow, RuleStart, Runner
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
    stop = time.monotonic() + 240
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


@pytest.mark.timeout(900)
def test_records_with_a_rule_are_compared_after_it(lab: Lab, settings: Any) -> None:
    where = "cast(value as string) not like '%7'"
    rule = TransformRule(topics=".*", where=where, value="upper(cast(value as string))")
    copy = lab.flow(tasks_max="1", **{TRANSFORMS: format_rules([rule])})
    topic = lab.create(copy.topic("ruled"), 2, retention_ms="-1")
    for partition in range(2):
        lab.write(topic, [{"key": b"k", "value": b"v%d" % at} for at in range(3000)], partition)
    copy.start().wait_in_sync(topic, seconds=300)
    flow = row_of(lab, copy, settings)

    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)

    assert (run.verdict, run.engine) == ("same", "spark"), run.reason + run.engine_reason
    assert {(part.rule, part.source_records) for part in run.parts.all()} == {(1, 2700)}
    # Another rule would not have made these copies: the first difference is named.
    other = dataclasses.replace(rule, value="lower(cast(value as string))")
    flow.properties[TRANSFORMS] = format_rules([other])
    flow.save()
    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)
    assert run.verdict == "differs", (run.engine_reason, [part.reason for part in run.parts.all()])
    first = ComparisonFinding.objects.filter(comparison=run, about="content", partition=0)[0]
    assert (first.kind, first.source_offset, first.target_offset) == ("changed", 0, 0)
    assert "its value differs" in first.sentence
    # From some offset on the present rule applies, and what is below is not compared.
    flow.properties[TRANSFORMS] = format_rules([rule])
    flow.save()
    RuleStart.objects.create(flow=flow, topic=topic, partition=0, offset=2000, when=timezone.now())
    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)
    part = run.parts.get(partition=0)
    assert (run.verdict, part.verdict, part.source_first) == ("partly", "partly", 2000), run.reason
    assert part.source_records == 900
    assert part.unread == 2000
    assert "From offset 2000 on rule 1 applies" in part.reason
    copy.stop()


@pytest.mark.timeout(900)
def test_compacted_topics_with_a_rule_are_compared_by_the_last_record_of_each_key(
    lab: Lab, settings: Any
) -> None:
    rule = TransformRule(
        topics=".*",
        where="cast(value as string) not like '%7'",
        value="upper(cast(value as string))",
    )
    copy = lab.flow(tasks_max="1", **{TRANSFORMS: format_rules([rule])})
    soon = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    topic = lab.create(copy.topic("keys"), 1, cleanup_policy="compact", **soon)

    def write(first: int, end: int) -> None:
        lab.write(topic, [{"key": b"k%d" % (at % 40), "value": b"v%d" % at}
                          for at in range(first, end)])  # fmt: skip

    write(0, 2000)
    copy.start().wait_in_sync(topic, seconds=240)
    # The active segment is never compacted.
    until = time.monotonic() + 180
    end = 2000
    while len(lab.read(topic)[0]) > 1500:
        assert time.monotonic() < until, "the broker did not compact the topic"
        write(end, end + 5)
        end += 5
        time.sleep(2)
    copy.wait_in_sync(topic)
    flow = row_of(lab, copy, settings)

    run = lifecycle.request_comparison(flow=flow, who="ann", records=None)
    advance(run)

    part = run.parts.get()
    assert (run.verdict, run.engine, part.rule) == ("same", "spark", 1), (
        run.reason + run.engine_reason + part.reason
    )
    assert 0 < part.source_records <= 40 * 10
    # Another program replaces the value of a key.
    lab.write_target(copy.remote(topic), [{"key": b"k1", "value": b"theirs"}])
    run = lifecycle.request_comparison(flow=flow, who="ann", records=None)
    advance(run)
    assert run.verdict == "differs", run.reason
    findings = ComparisonFinding.objects.filter(comparison=run, about="content")
    assert {row.kind for row in findings} <= {"extra", "missing"}
    assert "extra" in {row.kind for row in findings}

    changed = dataclasses.replace(rule, key="concat('x', cast(key as string))")
    flow.properties[TRANSFORMS] = format_rules([changed])
    flow.save()
    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)
    part = run.parts.get()
    assert (run.verdict, part.verdict) == ("partly", "unread")
    assert "compacted, and rule 1 changes keys" in part.reason
    copy.stop()


@pytest.mark.timeout(900)
def test_a_renamed_topic_is_compared_with_its_copy(lab: Lab, settings: Any) -> None:
    copy = lab.flow(tasks_max="1", **{"topic.rename": r"(.*)\.orders -> west-$1"})
    topic = lab.create(copy.topic("orders"), 2)
    remote = f"west-{copy.name}"
    for partition in range(2):
        lab.write(topic, [f"v{number}" for number in range(1500)], partition)
    copy.start().wait_in_sync(topic)
    flow = row_of(lab, copy, settings)

    run = lifecycle.request_comparison(flow=flow, who="ann")
    advance(run)

    assert (run.verdict, run.engine) == ("same", "spark"), run.reason + run.engine_reason
    assert {(part.remote_topic, part.source_records) for part in run.parts.all()} == {
        (remote, 1500)
    }
    lab.write_target(remote, ["foreign"])
    foreign = end_offsets(lab.target, remote)[remote, 0] - 1
    run = lifecycle.request_comparison(flow=flow, who="ann", topics=[topic])
    advance(run)
    finding = ComparisonFinding.objects.get(comparison=run, about="content")
    assert (finding.kind, finding.partition, finding.target_offset) == ("extra", 0, foreign)
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
