"""The long run's checks report a leaking service and growing delays."""

from __future__ import annotations

import dataclasses

import pytest

from tests.soak.judging import grown, slowed
from tests.soak.meter import Sample, Series

CALM = Sample(memory=500_000_000, processes=9, threads=120, files=300, connections=40)
# Of twenty minutes.
SAMPLES = 240
LEAKS = {"memory": 1_000_000, "processes": 0.03, "threads": 0.1, "files": 0.1, "connections": 0.1}


def run_of(what: str, each: float) -> list[dict[str, Sample]]:
    return [
        {"runner": dataclasses.replace(CALM, **{what: int(getattr(CALM, what) + each * at)})}
        for at in range(SAMPLES)
    ]


@pytest.mark.parametrize("what", LEAKS)
def test_what_grows_a_little_with_each_sample_is_told(what: str) -> None:
    assert grown(run_of(what, 0)) == []
    (sentence,) = grown(run_of(what, LEAKS[what]))
    assert sentence.startswith(f"{what} of runner grew from ")


@pytest.mark.parametrize("what", LEAKS)
def test_what_rises_once_and_stays_is_not(what: str) -> None:
    rows = run_of(what, 0)
    rows[SAMPLES // 3 :] = run_of(what, LEAKS[what])[-1:] * (SAMPLES * 2 // 3)
    assert grown(rows) == []


def test_more_processes_for_a_moment_than_twice_the_usual_are_told() -> None:
    rows = run_of("processes", 0)
    rows[SAMPLES // 2] = {"runner": dataclasses.replace(CALM, processes=19)}
    assert grown(rows) == ["runner had 19 processes"]


@pytest.mark.parametrize(("late", "told"), [(1.0, False), (1.4, False), (3.0, True)])
def test_records_that_are_later_at_the_end_are_told(late: float, told: bool) -> None:
    series = Series("latency")
    series.seen = [(at, 60.0 * (late if at >= 20 else 1.0)) for at in (n / 10 for n in range(300))]
    assert bool(slowed({"latency": series}, 0.0, 30.0)) is told
