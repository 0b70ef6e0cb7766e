"""Delays of live traffic: which records count, which were lost, which were duplicated."""

from __future__ import annotations

import math

from controlplane.bench.measurement.latency import summarise

MS = 1_000_000


def pairs(*delays: tuple[int, int]) -> list[int]:
    """(moment of sending, delay) in milliseconds, as a reader notes them."""
    return [number for at, delay in delays for number in (at * MS, (at + delay) * MS)]


def test_what_was_sent_while_it_warmed_up_does_not_count() -> None:
    found = summarise(pairs((0, 900), (10, 5), (11, 7), (12, 30)), skip_before=10 * MS, sent=4)
    assert (found.p50_ms, found.max_ms) == (7, 30)
    assert (found.missing, found.repeats) == (0, 0)


def test_a_record_that_came_twice_does_not_hide_one_that_never_came() -> None:
    found = summarise(pairs((0, 5), (1, 5), (1, 6)), skip_before=0, sent=3)
    assert (found.missing, found.repeats) == (1, 1)


def test_nothing_received_is_no_delay() -> None:
    found = summarise([], skip_before=0, sent=2)
    assert math.isnan(found.p50_ms)
    assert math.isnan(found.max_ms)
    assert found.missing == 2
