"""Totals over a flow's epochs count each report once, in any order."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest

from mirrors.domain.flows.lanes import LaneFigure
from mirrors.domain.flows.latency import Latency
from mirrors.domain.runners.job_files import JobSpec, JobStatus, TopicStatus
from mirrors.domain.specs import ClusterSpec
from spark_runner.flow.slice_balance import SliceBalance
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.ipc.messages import (
    Figures,
    PartitionError,
    PartitionFigure,
    PartitionWork,
    SliceResult,
)
from spark_runner.planning.plan import Plan
from spark_runner.slices.rotation import SlotRotation
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status


def lane(why: str, batches: int) -> LaneFigure:
    return LaneFigure(
        lane="repack" if why else "raw",
        why=why,
        batches=batches,
        records=10 * batches,
        bytes=100 * batches,
    )


def figures(records: int, *lanes: LaneFigure) -> Figures:
    return Figures(as_of=1, pid=2, state="copying", records=records, lanes=lanes)


def result(records: int, *lanes: LaneFigure) -> SliceResult:
    return SliceResult(ended_because="handover", reason="", records=records, lanes=lanes)


class Flow:
    """One slice, whose epochs say what a test lets them say."""

    def __init__(self) -> None:
        ends = [ClusterSpec(alias=alias, bootstrap_servers="b:9") for alias in ("a", "b")]
        job = JobSpec(
            job=1, flow=2, name="a->b", generation=1, desired="running", source=ends[0],
            target=ends[1], properties={},
        )  # fmt: skip
        self.dismissed: list[int] = []
        self._board = FlowProgress(job, 0)
        none: Any = types.SimpleNamespace(launch=None, rotation=SlotRotation())
        self._copying = SliceSupervisor(
            job, none, none, self._board, none, SliceBalance(0.0), lane="raw"
        )
        plan: Any = types.SimpleNamespace(slice_count=1, slices={})
        self._copying.apply_plan(plan)

    def hears(self, *said: tuple[int, Figures | SliceResult]) -> None:
        self._copying._slices[0] = types.SimpleNamespace(collect=lambda: said)  # type: ignore[assignment]
        self._copying.collect(0)

    def resumes(self, at: int, *, epoch: int) -> None:
        """A person's decision: the partition resumes at an offset, after a number of epochs."""
        tp = ("t", 0)
        work = PartitionWork(
            topic="t", topic_id="1", partition=0, remote_topic="a.t", remote_topic_id="2", start=at
        )
        plan = Plan(
            source_cluster_id="a",
            target_cluster_id="b",
            positions_topic="p",
            owner="",
            partitions={tp: work},
            slices={tp: 0},
            stopped={},
            topics=(
                TopicStatus(
                    topic="t", remote_topic="a.t", state="in_sync", reason="", partitions=1
                ),
            ),
            warnings=(),
            resumed=frozenset([tp]),
        )
        self._copying._slices[0] = types.SimpleNamespace(  # type: ignore[assignment]
            epoch=epoch, dismiss_successor=lambda: self.dismissed.append(epoch)
        )
        self._board.apply_plan(plan)
        self._copying.apply_plan(plan)
        self._copying.restart_partitions(plan.resumed)

    def plans_nothing(self) -> None:
        """The source has deleted the topic."""
        plan = Plan(
            source_cluster_id="a", target_cluster_id="b", positions_topic="p", owner="",
            partitions={}, slices={}, stopped={}, topics=(), warnings=(),
        )  # fmt: skip
        self._board.apply_plan(plan)

    def stands(self) -> tuple[int | None, str]:
        (row,) = self.says().partitions
        return row.position, row.reason

    def says(self) -> JobStatus:
        return job_status(self._board, "running", "", (), 0)


@pytest.fixture
def flow() -> Flow:
    return Flow()


def test_a_successor_that_gets_ready_does_not_make_the_epoch_before_it_count_again(
    flow: Flow,
) -> None:
    flow.hears((1, figures(500)))
    # Ready, long before it is its turn; the one before it copies on and then ends.
    flow.hears((1, figures(600)), (2, figures(0)))
    flow.hears((1, figures(650)), (1, result(700)))
    flow.hears((2, figures(20)))
    assert flow.says().records == 720


def test_a_job_that_spark_gave_up_takes_nothing_back(flow: Flow) -> None:
    flow.hears((1, figures(500, lane("", 5))), (1, result(0)), (2, figures(30, lane("", 1))))
    assert flow.says().records == 530
    assert flow.says().lanes == (lane("", 6),)


def test_lanes_are_counted_by_reason_over_all_epochs_and_rise_alone(flow: Flow) -> None:
    flow.hears((1, figures(0, lane("", 5))), (2, figures(0)))
    flow.hears((1, figures(0, lane("", 7), lane("small", 1))))
    flow.hears((1, result(0, lane("", 8), lane("small", 1))), (2, figures(0, lane("small", 2))))
    assert flow.says().lanes == (lane("", 8), lane("small", 3))
    assert JobStatus.from_json(flow.says().to_json()) == flow.says()


def moved(partition: int, position: int, records: int) -> PartitionFigure:
    return PartitionFigure(
        topic="t", partition=partition, position=position, records=records, bytes=10 * records
    )


def test_records_and_bytes_are_counted_by_partition_over_all_epochs(flow: Flow) -> None:
    flow.resumes(0, epoch=0)
    first = dataclasses.replace(figures(50), partitions=(moved(0, 50, 50),))
    second = dataclasses.replace(figures(90), partitions=(moved(0, 60, 60), moved(1, 30, 30)))
    ready = dataclasses.replace(figures(0), partitions=(moved(0, 60, 0),))
    flow.hears((1, first), (1, second), (2, ready))
    # The result repeats each partition, moved or not.
    ended = dataclasses.replace(result(95), partitions=(moved(0, 65, 65), moved(1, 30, 30)))
    flow.hears((1, ended), (2, dataclasses.replace(figures(7), partitions=(moved(0, 72, 7),))))
    # A result of a job that Spark gave up has no counts.
    flow.hears((2, dataclasses.replace(result(0), partitions=(moved(0, 72, 0),))))
    said = flow.says()
    assert [(row.records, row.bytes) for row in said.partitions] == [(72, 720)]
    # Partition 1 is in no plan any more, but its records were replicated.
    assert [(row.topic, row.records, row.bytes) for row in said.topics] == [("t", 102, 1_020)]
    assert said.records == 102
    assert JobStatus.from_json(said.to_json()) == said


def test_latency_is_of_all_reports_of_the_last_minute(flow: Flow) -> None:
    flow.resumes(0, epoch=0)
    assert flow.says().partitions[0].latency is None
    for records, latency in ((5, Latency(5, 50, 1, 30)), (9, Latency(4, 400, 100, 100))):
        row = dataclasses.replace(moved(0, records, records), latency=latency)
        # A report travels as JSON.
        said = Figures.from_json(dataclasses.replace(figures(records), partitions=(row,)).to_json())
        flow.hears((1, said))
    ended = flow.says()
    assert ended.partitions[0].latency == Latency(9, 450, 1, 100)
    assert JobStatus.from_json(ended.to_json()) == ended


def test_a_topic_that_comes_back_counts_from_zero(flow: Flow) -> None:
    flow.resumes(0, epoch=0)
    flow.hears((1, dataclasses.replace(figures(50), partitions=(moved(0, 50, 50),))))
    flow.plans_nothing()
    flow.resumes(0, epoch=0)
    flow.hears((1, dataclasses.replace(figures(60), partitions=(moved(0, 60, 60),))))
    assert [row.records for row in flow.says().topics] == [10]
    assert flow.says().records == 60


def test_what_an_epoch_says_of_a_partition_that_went_on_elsewhere_counts_no_more(
    flow: Flow,
) -> None:
    flow.resumes(40, epoch=3)
    assert flow.dismissed == [3]
    gap = PartitionError(
        topic="t", partition=0, offset=10, state="gap", code="source_gap", reason="gone"
    )
    old = dataclasses.replace(
        result(5), partitions=(PartitionFigure(topic="t", partition=0, position=10),), errors=(gap,)
    )
    flow.hears((3, old))
    assert flow.stands() == (40, "")
    moved = PartitionFigure(topic="t", partition=0, position=45)
    flow.hears((4, dataclasses.replace(figures(5), partitions=(moved,))))
    assert flow.stands() == (45, "")
    again = dataclasses.replace(gap, offset=45)
    flow.hears((4, dataclasses.replace(result(5), errors=(again,))))
    assert flow.stands() == (45, "gone")
