"""From samples to figures: the steady window, the sums, the percentiles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.measurement.steady_window import (
    Sample,
    figures,
    first_record_at,
    foreign,
    opening,
    percentile,
    steady,
)


def sample(at: float, offsets: int, replicator: float = 0.0, **other: float) -> Sample:
    values = {"source": 0.0, "target": 0.0, "tracked": 0.0, "busy": 0.0, "stolen": 0.0}
    return Sample(
        at=at, offsets=offsets, replicator=replicator, memory=int(at * 1e6), **{**values, **other}
    )


def a_run(seconds: int, total: int, start_up: int = 5) -> list[Sample]:
    """Nothing for five seconds at four cores, then even copying at half a core."""
    quiet = [sample(at, 0, at * 4) for at in range(start_up)]
    busy = [
        sample(start_up + at, total * at // seconds, start_up * 4 + at / 2)
        for at in range(seconds + 1)
    ]
    return quiet + busy + [sample(start_up + seconds + 1, total, start_up * 4 + seconds / 2)]


def test_start_up_warm_up_and_the_last_trickle_are_outside_the_window() -> None:
    window = steady(a_run(100, 1_000_000), total=1_000_000, warm_s=10, window_s=30)
    assert window[0].at == pytest.approx(16)
    assert window[-1].at == pytest.approx(102)


def test_a_run_too_short_for_the_whole_warm_up_is_measured_over_its_last_seconds() -> None:
    window = steady(a_run(60, 1_000_000), total=1_000_000, warm_s=40, window_s=30)
    assert window[-1].at - window[0].at == pytest.approx(30)
    assert window[0].at == pytest.approx(34)


def test_a_quarter_of_a_short_run_is_warm_up() -> None:
    window = steady(a_run(8, 1_000_000), total=1_000_000, warm_s=10, window_s=30)
    assert 5 + 1 + 8 / 4 - 1 <= window[0].at <= 5 + 1 + 8 / 4 + 1


def test_a_run_that_was_stopped_early_is_measured_to_its_end() -> None:
    samples = a_run(100, 1_000_000)[:50]
    assert steady(samples, total=1_000_000, warm_s=10, window_s=30)[-1] is samples[-1]


def test_the_opening_is_the_first_seconds_of_copying() -> None:
    first = opening(a_run(100, 1_000_000), total=1_000_000)
    assert (first[0].at, first[-1].at) == (6, 26)
    assert opening(a_run(8, 1_000_000), total=1_000_000)[-1].at == 13
    assert opening([sample(at, 0) for at in range(10)], total=10) == []


def test_nothing_copied_gives_no_window_and_no_figures() -> None:
    samples = [sample(at, 0) for at in range(10)]
    assert steady(samples, total=10, warm_s=1, window_s=30) == []
    assert first_record_at(samples) is None
    assert figures(samples, record_bytes=1_000) is None


def test_figures_are_differences_over_the_window() -> None:
    window = [
        sample(10, 1_000_000, 5, source=1, target=2, tracked=10, busy=15, stolen=0),
        sample(20, 3_000_000, 25, source=3, target=8, tracked=40, busy=50, stolen=0.5),
    ]
    found = figures(window, record_bytes=1_000, began_at=2)
    assert found is not None
    assert found.warmed_s == 8
    assert found.records_s == pytest.approx(200_000)
    assert found.mb_s == pytest.approx(200)
    assert found.cpu_s_per_gb == pytest.approx(10)
    assert found.source_cpu_s_per_gb == pytest.approx(1)
    assert found.target_cpu_s_per_gb == pytest.approx(3)
    assert found.cores == pytest.approx(2)
    assert found.foreign_cores == pytest.approx(0.5)
    assert found.steal == pytest.approx(0.05)
    assert not found.short


def test_transaction_markers_are_no_records() -> None:
    window = [sample(0, 0, 0), sample(10, 1_100, 1)]
    found = figures(window, record_bytes=1_000, records_per_offset=1_000 / 1_100)
    assert found is not None
    assert found.records_s == pytest.approx(100)


def test_foreign_work_is_never_negative() -> None:
    assert foreign(sample(0, 0, tracked=0, busy=0), sample(1, 0, tracked=1.02, busy=1.0)) == 0


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (percentile(ordered, 0.5), percentile(ordered, 0.99)) == (50, 99)
    assert percentile([7.0], 0.99) == 7
    assert math.isnan(percentile([], 0.5))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_not_passed_by_its_share(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered) - 1e-6
