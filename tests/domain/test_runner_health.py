"""A runner is healthy only while it reports so and its report is fresh."""

from __future__ import annotations

import pytest

from mirrors.domain.runners.reconciler import STALE_S, runner_health


def test_a_fresh_report_counts_as_it_is() -> None:
    assert runner_health(state="ready", reason="", report_age_s=STALE_S).is_healthy
    seen = runner_health(state="degraded", reason="No executor.", report_age_s=1)
    assert (seen.state, seen.reason, seen.is_healthy) == ("degraded", "No executor.", False)


@pytest.mark.parametrize("age", [STALE_S + 1, None])
@pytest.mark.parametrize("state", ["ready", "degraded"])
def test_an_old_report_is_degraded_and_says_its_age(state: str, age: float | None) -> None:
    seen = runner_health(state=state, reason="", report_age_s=age)
    assert seen.state == "degraded"
    assert ("21 s ago" if age else "never") in seen.reason


@pytest.mark.parametrize("state", ["absent", "starting", "stopping", "lost"])
def test_a_runner_that_does_not_serve_keeps_its_own_reason(state: str) -> None:
    seen = runner_health(state=state, reason="Its process has ended.", report_age_s=None)
    assert (seen.state, seen.reason, seen.is_healthy) == (state, "Its process has ended.", False)
