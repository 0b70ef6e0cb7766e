"""A status file never shows less of the source than it holds, whatever was replicated before."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from mirrors.domain.account.counted_range import BatchCount
from mirrors.domain.account.partition import evaluate
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.runners.job_files import JobSpec, JobStatus, TopicStatus
from mirrors.domain.specs import ClusterSpec
from mirrors.services.account import facts_of
from spark_runner.ipc.messages import PartitionError, PartitionFigure, PartitionWork
from spark_runner.planning.plan import Plan
from spark_runner.planning.selected_topics import SelectedTopic
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status
from spark_runner.status.source_offsets import LogOffsets
from tests.spark.lab import partition_row, topic_row

TP = ("orders", 0)
COPIED = 200
WORK = PartitionWork(
    topic="orders", topic_id="1", partition=0, remote_topic="a.orders", remote_topic_id="2",
    start=0,
)  # fmt: skip
RECREATED = GapFacts(kind="recreated", position=COPIED, first=0, end=150, was="1", now="3")


def a_board(**properties: str) -> FlowProgress:
    ends = [ClusterSpec(alias=alias, bootstrap_servers="b:9") for alias in ("a", "b")]
    job = JobSpec(
        job=1, flow=2, name="a->b", generation=1, desired="running", source=ends[0],
        target=ends[1], properties=properties,
    )  # fmt: skip
    return FlowProgress(job, 0)


def a_plan(
    *, stopped: dict[tuple[str, int], PartitionError] | None = None, code: str = "", **more: object
) -> Plan:
    stopped = stopped or {}
    topic = TopicStatus(
        topic="orders", remote_topic="a.orders", state="pending", reason="", partitions=1, code=code
    )
    return Plan(
        source_cluster_id="", target_cluster_id="", positions_topic="", owner="",
        partitions={} if TP in stopped else {TP: WORK},
        slices={} if TP in stopped else {TP: 0},
        stopped=stopped, topics=(topic,), warnings=(), **more,
    )  # fmt: skip


def error(code: str, gap: GapFacts | None = None, state: str = "gap") -> PartitionError:
    offset = None if gap is None else gap.position
    return PartitionError(
        topic="orders", partition=0, offset=offset, state=state, code=code,  # type: ignore[arg-type]
        reason="is stopped.", gap=gap,
    )  # fmt: skip


def copied() -> FlowProgress:
    """All of two hundred records are copied."""
    board = a_board()
    board.apply_plan(a_plan())
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED)], 0)
    board.apply_offsets(sampled(COPIED, as_of=2_000))
    return board


def sampled(
    end: int,
    *,
    as_of: int,
    first: int | None = None,
    position: int | None = COPIED,
    batches: Sequence[BatchCount] | None = None,
) -> LogOffsets:
    return LogOffsets(
        as_of,
        {TP: end},
        {TP: end},
        {} if first is None else {TP: first},
        {} if position is None else {TP: position},
        {} if batches is None else {TP: tuple(batches)},
    )


def told(board: FlowProgress, now: int = 10_000) -> JobStatus:
    return job_status(board, "running", "", (), now)


def owed(board: FlowProgress) -> int | None:
    row = partition_row(told(board), "orders")
    assert row is not None
    return evaluate(facts_of(row)).records


def test_a_source_that_ends_below_the_position_is_another_log_until_a_plan_says_which() -> None:
    board = copied()
    assert (owed(board), board.problems()) == (0, ())
    board.apply_offsets(sampled(150, as_of=3_000))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.source_end, row.state, row.time_lag_ms) == (150, "lagging", None)
    assert row.source_end_below_position
    assert owed(board) is None
    assert board.partitions_without_start() == [TP]
    [words] = board.problems()
    assert "ends at 150, below the position 200" in words
    # A lane that goes on copying does not hide it.
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED + 1)], 0)
    assert owed(board) is None
    board.apply_offsets(sampled(COPIED + 1, as_of=4_000))
    assert (owed(board), board.problems()) == (0, ())


def test_the_status_names_the_remote_topic_that_holds_the_copies() -> None:
    assert [row.remote_topic_id for row in told(copied()).topics] == [WORK.remote_topic_id]


def test_what_was_copied_since_the_source_was_asked_is_no_other_log() -> None:
    board = copied()
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED + 50)], 0)
    board.apply_offsets(sampled(COPIED, as_of=2_900, position=COPIED))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.source_end, row.source_end_below_position) == (COPIED + 50, False)


def test_records_written_since_the_last_sample_may_be_owed_since_then() -> None:
    """Figures repeat the position while nobody can sample: a topic that is being recreated."""
    board = copied()
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED)], 0)
    board.apply_offsets(sampled(COPIED + 10, as_of=10_000))
    row = partition_row(told(board, now=10_000), "orders")
    assert row is not None
    assert row.time_lag_ms == 8_000


def test_a_gap_of_which_only_a_lane_has_spoken_owes_an_unknown_amount() -> None:
    board = copied()
    board.add_errors([error("generation")])
    assert owed(board) is None


def test_a_recreated_topic_owes_what_the_source_holds_now_and_says_since_when() -> None:
    board = copied()
    board.add_errors([error("generation")])
    board.apply_plan(a_plan(stopped={TP: error("generation", RECREATED)}))
    # What had been sampled was of the topic before.
    assert owed(board) is None
    assert board.partitions_without_start() == [TP]
    for end in (150, 0, 500):
        board.apply_offsets(sampled(end, as_of=5_000, first=0))
        row = partition_row(told(board), "orders")
        assert row is not None
        assert (row.source_first, row.source_end, row.code) == (0, end, "generation")
        assert owed(board) == end
        # At most the time since nothing was owed.
        assert row.time_lag_ms == (10_000 - 2_000 if end else 0)
    # Once the first record's timestamp is known, its age.
    assert board.header_requests() == {TP: 0}
    assert row.counted is None, "what was copied of the other topic says nothing"
    board.apply_offsets(
        sampled(500, as_of=6_000, first=0, batches=[BatchCount(0, 299, 300, 4_500)])
    )
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.time_lag_ms, row.counted, evaluate(facts_of(row)).least) == (
        5_500, (0, 300, 300), 300,
    )  # fmt: skip
    # The next read begins where this one ended.
    assert board.header_requests() == {TP: 300}
    board.apply_offsets(sampled(500, as_of=6_500, first=0, batches=[BatchCount(300, 499, 1, 0, 7)]))
    assert (board.header_requests(), owed(board)) == ({TP: 500}, 500)
    row = partition_row(told(board), "orders")
    assert row is not None
    assert evaluate(facts_of(row)).least == 300, "nobody knows how that transaction ended"
    board.apply_offsets(sampled(900, as_of=7_000, first=600))
    # A request that was not sent, for lack of bytes, is repeated at once.
    assert [len(board.header_requests()) for _ in range(7)] == [1] * 7
    # Nothing moves while it waits for a decision.
    assert not board.has_backlog()


def test_what_a_plan_stopped_goes_on_when_the_next_one_has_work_for_it() -> None:
    board = a_board()
    board.apply_plan(a_plan(stopped={TP: error("cannot_be_created", state="faulted")}))
    assert board.has_retryable_problems
    board.apply_offsets(sampled(7, as_of=5_000, first=2, position=None))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.state, row.position, row.code) == ("faulted", None, "cannot_be_created")
    assert owed(board) == 5
    topic = topic_row(told(board), "orders")
    assert topic is not None
    assert (topic.state, topic.code) == ("faulted", "cannot_be_created")
    [words] = board.problems()
    assert words == "orders (1 partition) cannot be created on b. is stopped."
    assert board.apply_plan(a_plan()) == {TP}
    assert (board.problems(), board.errors, board.has_retryable_problems) == ((), {}, False)


def test_what_a_lane_said_since_the_plan_stays_when_the_next_plan_has_work() -> None:
    board = a_board()
    board.apply_plan(a_plan(stopped={TP: error("not_described", state="faulted")}))
    board.add_errors([error("too_large", state="faulted")])
    assert board.apply_plan(a_plan()) == frozenset()
    assert board.errors[TP].code == "too_large"


def test_partitions_that_a_topic_no_longer_has_are_named_and_stop_nothing() -> None:
    board = a_board()
    board.apply_plan(a_plan(deleted={("orders", 1): "was deleted."}))
    status = told(board)
    row = partition_row(status, "orders", 1)
    assert row is not None
    assert (row.state, row.code, row.reason) == ("skipped", "deleted_on_source", "was deleted.")
    assert evaluate(facts_of(row)).state == "deleted_on_source"
    assert board.problems() == ()
    assert board.partitions() == [TP]
    # An old reader's file and a new one's are the same shape.
    assert JobStatus.from_json(status.to_json()) == status


def test_a_principal_that_sees_no_topic_is_a_trouble_of_the_flow() -> None:
    board = a_board()
    plan = dataclasses.replace(a_plan(), not_visible="No topic of a is visible.")
    board.apply_plan(plan)
    assert told(board).not_visible == "No topic of a is visible."
    assert board.problems() == ("No topic of a is visible.",)
    assert board.has_retryable_problems


def test_what_a_look_finds_recreated_is_counted_until_a_plan_says_what_it_is() -> None:
    board = copied()
    gap = dataclasses.replace(RECREATED, position=COPIED - 5, first=None, end=None)
    board.mark_recreated({TP: error("generation", gap), ("other", 0): error("generation", gap)})
    assert owed(board) is None
    board.apply_offsets(sampled(500, as_of=5_000, first=0))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert row.gap is not None
    assert (row.state, row.gap.position, owed(board)) == ("gap", COPIED, 500)
    # The alias leads to the first cluster again.
    board.apply_plan(a_plan())
    assert board.errors == {}


def test_what_the_source_has_got_since_the_last_plan_is_owed() -> None:
    """A paused flow makes no plan, however long it is paused."""
    board = copied()
    selected = {"orders": SelectedTopic(2, "a.orders"), "new": SelectedTopic(1, "a.new")}
    assert board.mark_unplanned(selected)
    assert not board.mark_unplanned(selected)
    new = [("orders", 1), ("new", 0)]
    assert set(board.partitions_without_start()) == set(new)
    ends = {TP: COPIED, ("orders", 1): 30, ("new", 0): 60}
    first = {("orders", 1): 10, ("new", 0): 0}
    board.apply_offsets(LogOffsets(3_000, ends, ends, first, {TP: COPIED}))
    status = told(board)
    rows = {(row.topic, row.partition): evaluate(facts_of(row)) for row in status.partitions}
    assert [rows[tp].records for tp in (TP, *new)] == [0, 20, 60]
    assert [rows[tp].certainty for tp in new] == ["at_most", "at_most"]
    assert {(row.topic, row.partitions, row.remote_topic) for row in status.topics} == {
        ("orders", 2, "a.orders"),
        ("new", 1, "a.new"),
    }
    # Deleted again before a plan.
    board.mark_unplanned({})
    assert board.partitions() == [TP]
    # The plan has it from then on, at the position where it starts.
    board.mark_unplanned(selected)
    board.apply_plan(a_plan())
    assert board.partitions() == [TP]


def test_a_missing_remote_topic_owes_all_whatever_finds_it_first() -> None:
    board = copied()
    missing = error("remote_missing", state="faulted")
    board.add_errors([missing])
    assert owed(board) is None, "not zero: the copies are lost"
    assert board.partitions_without_start() == [TP]
    board.apply_offsets(sampled(COPIED, as_of=3_000, first=0))
    assert owed(board) == COPIED
    row = partition_row(told(board), "orders")
    assert row is not None
    assert row.time_lag_ms is None, "the copies are older than the last time nothing was owed"
    headers = [BatchCount(0, COPIED - 1, COPIED, 500)]
    assert board.header_requests() == {TP: 0}
    board.apply_offsets(sampled(COPIED, as_of=4_000, first=0, batches=headers))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert row.time_lag_ms == 9_500
    gap = GapFacts(kind="remote_missing", position=COPIED, first=0, end=COPIED)
    board.apply_plan(a_plan(stopped={TP: error("remote_missing", gap)}))
    # The task says it again when it ends.
    board.add_errors([missing])
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.state, row.gap, owed(board)) == ("gap", gap, COPIED)


def test_reads_of_headers_that_give_nothing_are_repeated_with_backoff() -> None:
    board = copied()
    board.apply_plan(a_plan(stopped={TP: error("generation", RECREATED)}))
    board.apply_offsets(sampled(150, as_of=3_000, first=0))
    sent = []
    for turn in range(40):
        if board.header_requests():
            sent.append(turn)
            board.apply_offsets(sampled(150, as_of=4_000 + turn, first=0, batches=[]))
    assert sent == [0, 2, 6, 14, 30]
    # One that gives batches ends the backoff.
    while not board.header_requests():
        pass
    batches = [BatchCount(0, 99, 100, 1)]
    board.apply_offsets(sampled(150, as_of=9_000, first=0, batches=batches))
    assert board.header_requests() == {TP: 100}


def test_records_of_a_recreated_topic_are_counted_also_while_it_is_shorter_than_the_old_one() -> (
    None
):
    board = copied()
    board.apply_plan(a_plan(stopped={TP: error("generation", RECREATED)}))
    assert not board.has_uncounted()
    board.apply_offsets(sampled(150, as_of=3_000, first=0))
    assert board.has_uncounted()
    assert board.header_requests() == {TP: 0}
    batches = [BatchCount(0, 99, 100, 1)]
    board.apply_offsets(sampled(150, as_of=4_000, first=0, batches=batches))
    assert (lower_bound(board), board.header_requests()) == (100, {TP: 100})
    assert board.has_uncounted()
    board.apply_offsets(sampled(150, as_of=4_500, first=0, batches=[BatchCount(100, 149, 50, 1)]))
    assert (lower_bound(board), board.has_uncounted()) == (150, False)
    board.apply_offsets(sampled(150, as_of=5_000, first=0))
    assert lower_bound(board) == 150
    # Recreated once more: what was counted is gone.
    again = dataclasses.replace(RECREATED, end=40, now="4")
    board.apply_plan(a_plan(stopped={TP: error("generation", again)}))
    board.apply_offsets(sampled(40, as_of=6_000, first=0))
    assert (lower_bound(board), owed(board), board.header_requests()) == (0, 40, {TP: 0})


def test_headers_of_what_is_copied_are_read_only_once_it_is_behind_for_a_whole_sample() -> None:
    board = copied()
    board.apply_offsets(sampled(COPIED + 300, as_of=3_000))
    assert board.header_requests() == {}
    board.apply_offsets(sampled(COPIED + 300, as_of=3_500))
    assert board.header_requests() == {TP: COPIED}
    batches = [
        BatchCount(COPIED, COPIED + 99, 100, 1),
        BatchCount(COPIED + 100, COPIED + 100, 0, 1),
    ]
    board.apply_offsets(sampled(COPIED + 300, as_of=4_000, batches=batches))
    assert lower_bound(board) == 100
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED + 60)], 0)
    assert lower_bound(board) == 40
    # Beyond the counted range nothing is claimed.
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED + 200)], 0)
    assert (lower_bound(board), board.header_requests()) == (0, {TP: COPIED + 200})
    board.apply_figures([PartitionFigure(topic="orders", partition=0, position=COPIED + 300)], 0)
    assert board.header_requests() == {}


@pytest.mark.parametrize(
    "properties",
    [
        {"skip.replicated": "true"},
        {"transforms": '[{"topics": "orders", "where": "value is not null"}]'},
        {"transforms": '[{"topics": "o.*", "value": "key", "on_error": "dead_letter"}]'},
    ],
)
def test_what_may_never_be_copied_is_not_counted(properties: dict[str, str]) -> None:
    board = a_board(**properties)
    board.apply_plan(a_plan(stopped={TP: error("cannot_be_created", state="faulted")}))
    board.apply_offsets(sampled(7, as_of=5_000, first=2, position=None))
    # The age of the first record is known nevertheless.
    assert board.header_requests() == {TP: 2}
    batches = [BatchCount(2, 4, 3, 4_000)]
    board.apply_offsets(sampled(7, as_of=6_000, first=2, position=None, batches=batches))
    row = partition_row(told(board), "orders")
    assert row is not None
    assert (row.counted, row.time_lag_ms, board.header_requests()) == (None, 6_000, {})


def test_records_that_a_rule_only_changes_are_counted() -> None:
    board = a_board(transforms='[{"topics": "orders", "value": "key", "provenance": true}]')
    board.apply_plan(a_plan(stopped={TP: error("cannot_be_created", state="faulted")}))
    board.apply_offsets(sampled(7, as_of=5_000, first=2, position=None))
    assert board.header_requests() == {TP: 2}
    board.apply_offsets(
        sampled(7, as_of=6_000, first=2, position=None, batches=[BatchCount(2, 4, 3, 4_000)])
    )
    assert lower_bound(board) == 3


def lower_bound(board: FlowProgress) -> int:
    row = partition_row(told(board), "orders")
    assert row is not None
    return evaluate(facts_of(row)).least
