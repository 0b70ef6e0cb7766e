"""A gap whose numbers the planner determined keeps them, whatever its epoch reports at its end."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.gaps.lost_ranges import GapFacts, remote_truncation
from mirrors.domain.runners.job_files import JobSpec, TopicStatus
from mirrors.domain.specs import ClusterSpec
from spark_runner.ipc.messages import PartitionError, PartitionWork
from spark_runner.planning.plan import Plan
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status

TP = ("orders", 0)
TOPIC = TopicStatus(
    topic="orders", remote_topic="a.orders", state="pending", reason="", partitions=1
)
CUT = remote_truncation(30, 0, end=18, belongs=30)
NUMBERED = dataclasses.replace(CUT, first=0, end=50)


def word(facts: GapFacts | None, offset: int = 30) -> PartitionError:
    return PartitionError(
        topic="orders", partition=0, offset=offset, state="gap", code="remote_truncated",
        reason="It was cut.", gap=facts,
    )  # fmt: skip


@pytest.fixture
def board() -> FlowProgress:
    """One partition that its lane has stopped, and that the planner has looked at since."""
    ends = [ClusterSpec(alias=alias, bootstrap_servers="b:9") for alias in ("a", "b")]
    job = JobSpec(
        job=1, flow=2, name="a->b", generation=1, desired="running", source=ends[0],
        target=ends[1], properties={},
    )  # fmt: skip
    work = PartitionWork(
        topic="orders", topic_id="", partition=0, remote_topic="a.orders", remote_topic_id="",
        start=30,
    )  # fmt: skip
    plan = Plan(
        source_cluster_id="", target_cluster_id="", positions_topic="", partitions={TP: work},
        slices={TP: 0}, stopped={}, topics=(TOPIC,), warnings=(), owner="",
    )  # fmt: skip
    made = FlowProgress(job, 0)
    made.apply_plan(plan)
    made.add_errors([word(CUT)])
    assert made.gaps_without_range()
    made.apply_plan(dataclasses.replace(plan, partitions={}, stopped={TP: word(NUMBERED)}))
    return made


@pytest.mark.parametrize("facts", [CUT, None])
def test_what_the_epoch_says_again_at_its_end_takes_no_numbers_away(
    board: FlowProgress, facts: GapFacts | None
) -> None:
    board.add_errors([word(facts)])
    assert board.errors[TP].gap == NUMBERED
    assert not board.gaps_without_range()


def test_another_gap_of_the_same_partition_is_taken_up(board: FlowProgress) -> None:
    further = dataclasses.replace(CUT, position=40)
    board.add_errors([word(further, 40)])
    assert board.errors[TP].gap == further


def test_its_remote_topic_is_told_although_nothing_is_planned_for_it(board: FlowProgress) -> None:
    """A failover counts on what lies there."""
    (row,) = job_status(board, "running", "", (), 1).partitions
    assert (row.state, row.remote_topic) == ("gap", "a.orders")
