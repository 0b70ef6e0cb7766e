"""When a slice commits; times are arguments."""

from __future__ import annotations

import pytest

from spark_runner.engine.commit_timing import CommitTiming
from spark_runner.engine.record_lane.commit_timing import RecordCommitTiming


def test_with_a_backlog_the_whole_interval_passes_before_a_commit() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=True)
    timing.opened(10.0)
    assert not timing.is_due(10.49, idle=False)
    assert timing.is_due(10.5, idle=False)


def test_readers_of_committed_records_wait_a_tenth_of_a_second_once_all_has_crossed() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=True)
    timing.opened(10.0)
    assert not timing.is_due(10.09, idle=True)
    assert timing.is_due(10.11, idle=True)
    assert timing.wakes_at(10.0) == 10.1


def test_dear_commits_come_less_often_but_never_later_than_the_interval() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=True)
    for _ in range(50):
        timing.committed(20.0, 20.05)
    timing.opened(30.0)
    assert not timing.is_due(30.2, idle=True)
    assert timing.is_due(30.31, idle=True)
    for _ in range(50):
        timing.committed(20.0, 21.0)
    timing.opened(40.0)
    assert timing.is_due(40.5, idle=True)


def test_at_least_once_nobody_waits_for_a_commit_and_none_holds_up_records() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=False)
    timing.opened(10.0)
    assert not timing.is_due(10.49, idle=True)
    assert timing.is_due(10.5, idle=True)
    assert timing.wakes_at(10.0) == 10.5


def test_an_interval_below_a_tenth_of_a_second_is_kept() -> None:
    timing = CommitTiming(longest_s=0.02, readers_wait=True)
    timing.opened(10.0)
    assert timing.is_due(10.03, idle=True)


def test_the_record_lane_commits_an_interval_after_the_first_of_what_moved() -> None:
    timing = RecordCommitTiming(0.5)
    assert (timing.is_due(99.0), timing.wait_s(99.0)) == (False, 0.2)
    timing.moved(10.0)
    timing.moved(10.4)
    assert timing.wait_s(10.4) == pytest.approx(0.1)
    assert not timing.is_due(10.49)
    assert timing.is_due(10.5)
    timing.begun()
    assert not timing.is_due(99.0)


def test_the_record_lane_commits_sooner_once_all_was_read_unless_commits_are_dear() -> None:
    timing = RecordCommitTiming(0.5)
    timing.moved(10.0)
    timing.caught_up(10.1)
    assert timing.is_due(10.13)
    timing.begun()
    timing.committed(took_s=0.03)
    timing.moved(20.0)
    timing.caught_up(20.1)
    assert not timing.is_due(20.3)
    assert timing.is_due(20.41)


def test_the_record_lane_lets_a_position_that_moved_without_a_record_wait() -> None:
    timing = RecordCommitTiming(0.5)
    timing.passed_over(10.0)
    assert not timing.is_due(10.9)
    timing.moved(10.1)
    assert timing.is_due(10.6)
