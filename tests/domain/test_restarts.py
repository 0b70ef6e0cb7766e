"""Restart backoff: how long restarts wait, and when failures are forgotten."""

from __future__ import annotations

import pytest

from mirrors.domain.runners import restarts
from mirrors.domain.runners.restarts import JobRow

NOW = 1_000_000_000
SECOND, MINUTE = 1000, 60_000


def ended(state: str, began: int, lasted: int = SECOND) -> JobRow:
    """A job that began this many milliseconds ago."""
    return JobRow(
        id=began, generation=1, state=state, started_at=NOW - began, ended_at=NOW - began + lasted
    )


@pytest.mark.parametrize(
    ("failures", "minutes"),
    [
        (0, 0),
        (1, 0),
        (2, 2),
        (3, 6),
        (4, 12),
        (5, 20),
        (6, 30),
        (7, 42),
        (8, 56),
        (9, 60),
        (99, 60),
    ],
)
def test_restarts_wait_as_strimzis_do(failures: int, minutes: int) -> None:
    assert restarts.restart_delay_ms(failures) == minutes * MINUTE


@pytest.mark.parametrize(
    ("jobs", "failures"),
    [
        ([], 0),
        ([ended("failed", 9 * MINUTE)], 1),
        ([ended("failed", 9 * MINUTE), ended("failed", 8 * MINUTE)], 2),
        ([ended("failed", 9 * MINUTE), ended("stopped", 8 * MINUTE)], 0),
        ([ended("failed", 9 * MINUTE), ended("lost", 8 * MINUTE)], 1),
        ([ended("lost", 9 * MINUTE), ended("lost", 8 * MINUTE)], 0),
        # Well for 3 min after one failure: longer than the next back-off of 2 min, so forgiven.
        ([ended("failed", 9 * MINUTE), ended("failed", 8 * MINUTE, 3 * MINUTE)], 1),
        # Well for 2 min: not longer.
        ([ended("failed", 9 * MINUTE), ended("failed", 8 * MINUTE, 2 * MINUTE)], 2),
        ([ended("failed", 20 * MINUTE), ended("failed", 19 * MINUTE),
          ended("failed", 15 * MINUTE, 5 * MINUTE)], 3),
        ([ended("failed", 20 * MINUTE), ended("failed", 19 * MINUTE),
          ended("failed", 15 * MINUTE, 7 * MINUTE)], 1),
    ],
)  # fmt: skip
def test_failures_in_a_row_are_forgiven_only_after_being_well(
    jobs: list[JobRow], failures: int
) -> None:
    assert restarts.failures_in_a_row(jobs) == failures
    assert restarts.failures_in_a_row(jobs[::-1]) == failures


def test_a_running_job_is_forgiven_once_it_was_well_for_longer_than_the_next_back_off() -> None:
    job = JobRow(id=1, generation=1, state="running", started_at=0)
    assert not restarts.is_forgiven(job, 1, 2 * MINUTE)
    assert restarts.is_forgiven(job, 1, 2 * MINUTE + 1)
    assert not restarts.is_forgiven(job, 0, 99 * MINUTE)


def test_a_runner_that_dies_while_it_starts_is_started_again_ever_later() -> None:
    delays = [restarts.runner_delay_ms(number) for number in (0, 1, 2, 3, 7, 99)]
    assert delays == [0, 5_000, 10_000, 20_000, 300_000, 300_000]


def test_only_quick_losses_in_a_row_slow_a_runner_down() -> None:
    lost = [ended("lost", number * 20 * SECOND, 10 * SECOND) for number in (3, 2, 1)]
    assert restarts.quick_losses(lost) == 3
    well = ended("lost", 70 * SECOND, 31 * SECOND)
    assert restarts.quick_losses([well, *lost[1:]]) == 2
    delays = [restarts.runner_delay_ms(0, losses) for losses in (0, 2, 3, 4, 99)]
    assert delays == [0, 0, 5_000, 10_000, 60_000]
