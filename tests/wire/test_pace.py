"""When a slice commits: pure, on moments that are handed in."""

from __future__ import annotations

import pytest

from spark_runner.engine.commit_timing import Pace
from spark_runner.engine.record_lane.commit_timing import RecordPace


def test_with_a_backlog_the_whole_interval_passes_before_a_commit() -> None:
    pace = Pace(longest_s=0.5, readers_wait=True)
    pace.opened(10.0)
    assert not pace.is_due(10.49, idle=False)
    assert pace.is_due(10.5, idle=False)


def test_readers_of_committed_records_wait_a_tenth_of_a_second_once_all_has_crossed() -> None:
    pace = Pace(longest_s=0.5, readers_wait=True)
    pace.opened(10.0)
    assert not pace.is_due(10.09, idle=True)
    assert pace.is_due(10.11, idle=True)
    assert pace.wakes_at(10.0) == 10.1


def test_dear_commits_come_less_often_but_never_later_than_the_interval() -> None:
    pace = Pace(longest_s=0.5, readers_wait=True)
    for _ in range(50):
        pace.committed(20.0, 20.05)
    pace.opened(30.0)
    assert not pace.is_due(30.2, idle=True)
    assert pace.is_due(30.31, idle=True)
    for _ in range(50):
        pace.committed(20.0, 21.0)
    pace.opened(40.0)
    assert pace.is_due(40.5, idle=True)


def test_at_least_once_nobody_waits_for_a_commit_and_none_holds_up_records() -> None:
    pace = Pace(longest_s=0.5, readers_wait=False)
    pace.opened(10.0)
    assert not pace.is_due(10.49, idle=True)
    assert pace.is_due(10.5, idle=True)
    assert pace.wakes_at(10.0) == 10.5


def test_an_interval_below_a_tenth_of_a_second_is_kept() -> None:
    pace = Pace(longest_s=0.02, readers_wait=True)
    pace.opened(10.0)
    assert pace.is_due(10.03, idle=True)


def test_the_record_lane_commits_an_interval_after_the_first_of_what_moved() -> None:
    pace = RecordPace(0.5)
    assert (pace.is_due(99.0), pace.patience_s(99.0)) == (False, 0.2)
    pace.moved(10.0)
    pace.moved(10.4)
    assert pace.patience_s(10.4) == pytest.approx(0.1)
    assert not pace.is_due(10.49)
    assert pace.is_due(10.5)
    pace.begun()
    assert not pace.is_due(99.0)


def test_the_record_lane_commits_sooner_once_all_was_read_unless_commits_are_dear() -> None:
    pace = RecordPace(0.5)
    pace.moved(10.0)
    pace.caught_up(10.1)
    assert pace.is_due(10.13)
    pace.begun()
    pace.committed(took_s=0.03)
    pace.moved(20.0)
    pace.caught_up(20.1)
    assert not pace.is_due(20.3)
    assert pace.is_due(20.41)


def test_the_record_lane_lets_a_position_that_moved_without_a_record_wait() -> None:
    pace = RecordPace(0.5)
    pace.passed_over(10.0)
    assert not pace.is_due(10.9)
    pace.moved(10.1)
    assert pace.is_due(10.6)
