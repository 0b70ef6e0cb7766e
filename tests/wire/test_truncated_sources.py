"""A source truncated below the position is detected before a job copies."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable

import pytest

from mirrors.domain.gaps.lost_ranges import Decision, GapFacts
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from spark_runner.kafka_protocol.records import Record
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from tests.wire.hanging import last_row
from tests.wire.stops import NOW, only_error, stopped
from tests.wire.world import Flow, Side, unique

HELD, COPIED = 10, 15


def planned(planner: Planner, *decisions: Decision) -> Plan:
    orders = PlanContext(decisions=decisions)
    now = int(time.time() * 1000)
    return planner.plan(now=now, most_slices=1, positions={}, slices={}, context=orders)


@pytest.fixture
def job(source: Side, target: Side) -> JobSpec:
    topic, alias = unique("cut"), unique("src").replace(".", "")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")] * HELD)
    return JobSpec(
        job=1, flow=1, name=f"{alias}->two", generation=1, desired="running",
        source=ClusterSpec(alias=alias, bootstrap_servers=source.spec.bootstrap_servers),
        target=target.spec,
        properties={
            "topics": topic.replace(".", "\\."), "replication.factor": "1", "tasks.max": "1"
        },
    )  # fmt: skip


@pytest.fixture
def cut(job: JobSpec, target: Side) -> Callable[..., tuple[str, str]]:
    """The topic and the positions topic; the row says that more was copied than there is."""

    def write(**changes: int | None) -> tuple[str, str]:
        topic = job.properties["topics"].replace("\\.", ".")
        with contextlib.closing(Planner(job, "first")) as planner:
            planner.take_over()
            # Heartbeats of other tests may be beside it.
            assert (topic, 0) in planned(planner).partitions
            positions = planner.positions_topic
        row = dataclasses.replace(last_row(target, positions, topic), **changes)  # type: ignore[arg-type]
        target.write(positions, 0, [Record(0, NOW, row.key, row.value)])
        return topic, positions

    return write


def test_the_first_plan_of_a_job_names_the_gap_of_the_job_before(
    job: JobSpec, cut: Callable[..., tuple[str, str]]
) -> None:
    """Until a lane told of it, its row was closed; and a decision with it, that nobody had done."""
    topic, _ = cut(position=COPIED, leader_epoch=0)
    facts = GapFacts(kind="truncated", position=COPIED, first=0, end=HELD)
    with contextlib.closing(Planner(job, "second")) as planner:
        planner.take_over()
        plan = planned(planner)
        assert plan.stopped[topic, 0].gap == facts
        assert "offsets 10 to 14 were copied from a log" in plan.stopped[topic, 0].reason
    decision = Decision(topic=topic, partition=0, choice="accept", facts=facts)
    with contextlib.closing(Planner(job, "third")) as planner:
        planner.take_over()
        plan = planned(planner, decision)
        assert plan.partitions[topic, 0].start == HELD


def test_a_log_that_was_not_cut_is_work(job: JobSpec, cut: Callable[..., tuple[str, str]]) -> None:
    topic, _ = cut(position=HELD, leader_epoch=0)
    with contextlib.closing(Planner(job, "second")) as planner:
        planner.take_over()
        assert planned(planner).partitions[topic, 0].start == HELD


def test_an_accepted_cut_counts_once_and_keeps_the_map(
    job: JobSpec, cut: Callable[..., tuple[str, str]], target: Side
) -> None:
    """What is written of the map from there on is behind a mark, where runs were written at all."""
    topic, positions = cut(position=COPIED, leader_epoch=0)
    runs = runs_topic(job.source.alias)
    target.make(runs)
    facts = GapFacts(kind="truncated", position=COPIED, first=0, end=HELD)
    decision = Decision(topic=topic, partition=0, choice="accept", facts=facts)
    with contextlib.closing(Planner(job, "second")) as planner:
        planner.take_over()
        planned(planner, decision)
    row = last_row(target, positions, topic)
    assert (row.position, row.resets, row.kept) == (HELD, 1, 1)
    (mark,) = target.read(runs)
    assert b".again" in (mark.key or b"")
    again: Position = dataclasses.replace(row, position=COPIED, leader_epoch=0)
    target.write(positions, 0, [Record(0, NOW, again.key, again.value)])
    with contextlib.closing(Planner(job, "third")) as planner:
        planner.take_over()
        plan = planned(planner, decision)
        assert plan.stopped[topic, 0].gap == dataclasses.replace(facts, resets=1)


def test_a_cut_that_only_the_range_tells_has_numbers_as_well(source: Side, target: Side) -> None:
    """Without a leader epoch, the log may reach beyond the position again when the planner looks.
    Then nothing would look wrong, and the partition would stay stopped."""
    topic = unique("cut")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")] * HELD)
    flow = Flow(source, target, commit_interval_ms="50")
    flow.add(topic, start=COPIED)
    error = only_error(stopped(flow))
    assert (error.code, error.offset) == ("out_of_range", COPIED)
    assert error.gap == GapFacts(kind="truncated", position=COPIED, first=None, end=HELD)
