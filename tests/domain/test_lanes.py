"""Figures of lanes: they add up, they only increase, and shares refer to all batches."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.flows.lanes import LANES, LaneFigure, counter_increase, shares, sum_by_lane

amounts = st.integers(0, 1_000_000)
figures = st.lists(
    st.builds(
        LaneFigure,
        lane=st.sampled_from(LANES),
        why=st.sampled_from(["", "small batches", "holes"]),
        batches=amounts,
        records=amounts,
        bytes=amounts,
    ),
    max_size=12,
)


def total(rows: list[LaneFigure]) -> tuple[int, int, int]:
    return (
        sum(row.batches for row in rows),
        sum(row.records for row in rows),
        sum(row.bytes for row in rows),
    )


@given(figures)
def test_a_sum_has_one_row_a_lane_and_reason_and_loses_nothing(rows: list[LaneFigure]) -> None:
    found = sum_by_lane(rows)
    assert len({row.key for row in found}) == len(found)
    assert total(list(found)) == total(rows)
    assert sum_by_lane(found) == found


@given(figures, figures)
def test_what_was_added_and_what_was_there_make_what_is_there_now(
    before: list[LaneFigure], added: list[LaneFigure]
) -> None:
    then, now = sum_by_lane(before), sum_by_lane([*before, *added])
    assert sum_by_lane([*then, *counter_increase(then, now)]) == now


@given(figures, figures)
def test_figures_that_fall_add_nothing(one: list[LaneFigure], other: list[LaneFigure]) -> None:
    for row in counter_increase(sum_by_lane(one), sum_by_lane(other)):
        assert min(row.batches, row.records, row.bytes) >= 0


@given(figures)
def test_shares_are_of_all_batches_the_largest_first(rows: list[LaneFigure]) -> None:
    found = shares(sum_by_lane(rows))
    assert [row.batches for row in found] == sorted((row.batches for row in found), reverse=True)
    if any(row.batches for row in found):
        assert abs(sum(row.percent for row in found) - 100) < 0.1 * len(found)
    for row in found:
        assert {field.name for field in dataclasses.fields(row)} >= {"lane", "why", "percent"}
