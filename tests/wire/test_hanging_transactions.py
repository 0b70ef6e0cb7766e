"""A transaction that has ended, but not in one partition, is ended there first."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.producers.identity import ProducerIdentity
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.planner import Planner
from spark_runner.positions.topic import slice_id
from tests.spark.lab import wait_for
from tests.wire.hanging import copied, is_stable, is_the_same, last_row, leave_open, moved, records
from tests.wire.stops import LANES, NOW
from tests.wire.world import Driver, Flow, Side, bare, unique

each_lane = pytest.mark.parametrize("lane", LANES)


@each_lane
@pytest.mark.usefixtures("trusting")
def test_what_is_committed_by_the_positions_is_committed_where_its_marker_is_missing(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote, owner = copied(source, target, lane)
    row = moved(flow, topic, 5)
    leave_open(target, owner, remote, records(5, b"late"))
    target.write(flow.positions_topic, 0, [row])
    is_the_same(flow, topic, remote, lane)


@each_lane
@pytest.mark.usefixtures("trusting")
def test_what_is_not_committed_by_the_positions_is_aborted_where_its_marker_is_missing(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote, owner = copied(source, target, lane)
    leave_open(target, owner, remote, records(5, b"late"))
    is_the_same(flow, topic, remote, lane)


@each_lane
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.usefixtures("trusting")
def test_positions_without_a_marker_count_as_the_coordinator_ended_them(
    source: Side, target: Side, lane: str, commit: bool
) -> None:
    flow, topic, remote, _ = copied(source, target, lane)
    row = moved(flow, topic, 5)
    transaction = target.transaction(flow.work().transactional_id)
    transaction.write(remote, 0, records(5, b"late"))
    leave_open(target, transaction._identity, flow.positions_topic, [row])
    transaction.end(commit=commit)
    is_the_same(flow, topic, remote, lane)


@pytest.mark.usefixtures("trusting")
def test_a_new_owner_ends_what_hangs_before_he_reads_the_positions(
    source: Side, target: Side
) -> None:
    topic, alias = unique("hangs"), unique("src").replace(".", "")
    source.make(topic)
    source.write(topic, 0, records(5))
    small = {"replication.factor": "1", "tasks.max": "1"}
    job = JobSpec(
        job=1, flow=1, name=f"{alias}->two", generation=1, desired="running",
        source=ClusterSpec(alias=alias, bootstrap_servers=source.spec.bootstrap_servers),
        target=target.spec, properties={"topics": topic.replace(".", "\\."), **small},
    )  # fmt: skip
    with contextlib.closing(Planner(job, "first")) as planner:
        planner.take_over()
        assert starts(planner)[topic, 0] == 0
        positions = planner.positions_topic
    transaction = target.transaction(slice_id(job.name, 0))
    transaction.write(f"{alias}.{topic}", 0, records(5))
    row = dataclasses.replace(last_row(target, positions, topic), position=5)
    leave_open(target, transaction._identity, positions, [Record(0, NOW, row.key, row.value)])
    transaction.end(commit=True)
    with contextlib.closing(Planner(job, "second")) as planner:
        planner.take_over()
        assert starts(planner)[topic, 0] == 5


def starts(planner: Planner) -> dict[TopicPartition, int]:
    now = int(time.time() * 1000)
    plan = planner.plan(now=now, most_slices=1, positions={}, slices={}, context=PlanContext())
    return {tp: work.start for tp, work in plan.partitions.items()}


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_broker_killed_between_the_markers_of_a_commit_loses_and_doubles_nothing(
    source: Side, tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve times, 2 to 8 ms after the end of a transaction over 150 partitions was asked for."""
    width = 150
    broker = KafkaBroker(
        tmp_path,
        name="dies",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    broker.start()
    side = Side("dies", broker.bootstrap)
    topic = unique("markers")
    source.make(topic, width)
    flow = Flow(source, side, commit_interval_ms="50")
    remote = flow.add(topic)
    ended, written, over = threading.Event(), threading.Event(), threading.Event()
    end = ProducerIdentity.end

    def tell(self: ProducerIdentity, **how: Any) -> bool:
        if written.is_set():
            ended.set()
        return end(self, **how)

    monkeypatch.setattr(ProducerIdentity, "end", tell)
    results = []
    driver = Driver(until=lambda driver: over.is_set())

    def copy() -> None:
        while not over.is_set():
            results.append(RawCopier().run(flow.work(seconds=900), driver))  # type: ignore[arg-type]

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        for turn in range(12):
            for partition in range(width):
                source.write(topic, partition, records(3, b"%d" % turn))
            ended.clear()
            written.set()
            assert ended.wait(60)
            written.clear()
            time.sleep(0.002 + turn % 4 * 0.002)
            broker.kill()
            broker.launch()
            broker.wait()
        wanted = flow.ends()
        until = time.monotonic() + 120
        while any(driver.position(*tp) < last for tp, last in wanted.items()):
            assert time.monotonic() < until, [result.reason for result in results]
            time.sleep(0.2)
        over.set()
        thread.join(60)
        assert [result.errors for result in results if result.errors] == []
        after = Side("dies", broker.bootstrap)
        for partition in range(width):
            assert bare(after.read(remote, partition)) == bare(source.read(topic, partition))
        wait_for(partial(is_stable, after, remote), seconds=10, what="the last markers")
    finally:
        over.set()
        thread.join(60)
        broker.kill()
