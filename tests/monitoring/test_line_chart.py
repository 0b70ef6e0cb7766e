"""Charts as SVG: steps, breaks, round axes, few lines, objectives that do not flatten them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from monitoring.domain.line_chart import (
    HEIGHT,
    MOST_LINES,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    WIDTH,
    line_chart,
    round_top,
    sparkline,
    steps,
)

values = st.lists(st.none() | st.floats(0, 1e9), min_size=4, max_size=4)


def test_a_trend_starts_at_zero_breaks_where_nothing_is_known_and_shows_noise_small() -> None:
    assert sparkline([], 10) == sparkline([None, None], 10) == sparkline([1], 10) == ""
    assert sparkline([0, None, 30], 30) == f"M0.0 {SPARK_HEIGHT - 1}.0h0M{SPARK_WIDTH}.0 1.0h0"
    low = sparkline([0, 1, 0], 100)
    assert [float(y) for y in re.findall(r" ([\d.]+)", low)] == [17.0, 16.8, 17.0]


def test_values_are_steps_and_an_unknown_one_is_a_break() -> None:
    quarter = WIDTH / 4
    assert steps([0, 10, None, 5], 10) == [
        f"M0.0 {HEIGHT - 1}.0H{quarter}V1.0H{2 * quarter}",
        f"M{3 * quarter} {HEIGHT / 2}H{4 * quarter}",
    ]


def test_an_axis_ends_at_a_round_duration() -> None:
    given_tops = (0, 1_900, 38_000, 61_000, 9 * 3_600_000)
    assert [round_top(value) for value in given_tops] == [
        2_000, 2_000, 40_000, 120_000, 12 * 3_600_000,
    ]  # fmt: skip


def test_an_objective_is_drawn_unless_it_would_flatten_the_lines() -> None:
    drawn = line_chart({1: [3_000, 4_000]}, [30_000, 3_600_000, 30_000])
    assert drawn is not None
    assert [value for value, _ in drawn.objectives] == [30_000]
    assert drawn.too_high == (3_600_000,)
    assert drawn.top == 40_000


def test_the_worst_lines_are_drawn_on_top_and_the_rest_is_one() -> None:
    drawn = line_chart({key: [key * 1_000, None] for key in range(1, 9)})
    assert drawn is not None
    assert [line.key for line in drawn.lines] == [None, 4, 5, 6, 7, 8]
    assert (drawn.others, drawn.lines[0].peak, drawn.lines[-1].text) == (3, 3_000, "8000,")
    assert line_chart({1: [None, None], 2: []}) is None


@given(st.dictionaries(st.integers(1, 20), values, max_size=9))
def test_no_line_leaves_the_chart_and_no_peak_is_hidden(
    figures: dict[int, list[float | None]],
) -> None:
    drawn = line_chart(figures)
    known = [value for one in figures.values() for value in one if value is not None]
    assert (drawn is None) == (not known)
    if drawn is None:
        return
    assert drawn.top >= max(known)
    assert len(drawn.lines) <= MOST_LINES + 1
    assert max(line.peak or 0 for line in drawn.lines) == max(known)
    for line in drawn.lines:
        heights = re.findall(r"[ V]([\d.]+)", line.path + line.area)
        assert all(0 <= float(height) <= HEIGHT for height in heights)
