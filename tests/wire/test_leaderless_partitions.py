"""Partitions without a leader and the time of their lookup; times are arguments."""

from __future__ import annotations

from spark_runner.engine.model.broker_availability import LeaderlessPartitions
from spark_runner.engine.model.partition import Partition

NEVER = float("inf")


def _partitions(count: int) -> list[Partition]:
    return [Partition("orders", number, "primary.orders") for number in range(count)]


def test_in_the_beginning_all_are_asked_for_at_once_and_not_again_within_the_pause() -> None:
    partitions = _partitions(2)
    waiting = LeaderlessPartitions(partitions, 0.2)
    assert waiting.wakes_at() == 0.0
    assert waiting.due(10.0) == partitions
    assert waiting.due(10.1) == []
    assert waiting.wakes_at() == 10.2
    assert waiting.due(10.2) == partitions


def test_who_has_a_leader_is_asked_for_no_more_and_with_nobody_left_nothing_wakes() -> None:
    one, other = _partitions(2)
    waiting = LeaderlessPartitions([one, other], 0.2)
    waiting.remove(one)
    assert waiting.due(10.0) == [other]
    waiting.remove(other)
    waiting.remove(other)
    assert (waiting.due(20.0), waiting.wakes_at()) == ([], NEVER)


def test_a_track_with_a_later_moment_waits_for_it_while_the_others_are_asked_for() -> None:
    one, other = _partitions(2)
    waiting = LeaderlessPartitions([one], 0.2)
    waiting.add([other], 10.5)
    assert waiting.due(10.4) == [one]
    assert waiting.due(10.6) == [one, other]


def test_one_that_comes_at_once_does_not_wait_for_the_pause_of_the_others() -> None:
    one, other = _partitions(2)
    waiting = LeaderlessPartitions([one], 0.2)
    waiting.due(10.0)
    waiting.add([other], 0.0)
    assert waiting.wakes_at() == 0.0
    assert waiting.due(10.01) == [one, other]


def test_one_that_comes_back_with_an_error_puts_no_other_off() -> None:
    one, other = _partitions(2)
    waiting = LeaderlessPartitions([one, other], 0.2)
    waiting.due(10.0)
    waiting.add([one], 10.9)
    assert waiting.due(10.2) == [other]


def test_to_begin_anew_forgets_who_waited() -> None:
    one, other = _partitions(2)
    waiting = LeaderlessPartitions([one], 0.2)
    waiting.due(10.0)
    waiting.begin([other])
    assert waiting.due(10.01) == [other]
