"""When retention overtakes a flow: reported in time, roughly right, and never without a loss."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.domain.forecasts.retention import (
    RetentionRisk,
    Step,
    add_step,
    copy_rate,
    deletion_pace,
    describe_risk,
    risk_of,
    update_progress,
)

TP = ("orders", 3)
MINUTE = 60_000


def risk(steps: list[Step], position: int, copied: float | None, at: int) -> RetentionRisk | None:
    earliest = steps[-1][1] if steps else 0
    return risk_of(
        TP,
        position=position,
        earliest=earliest,
        end=10**9,
        pace=deletion_pace(steps, at),
        copied=copied,
        at=at,
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_broker_that_deletes_segments_is_foretold_within_ten_percent(seed: int) -> None:
    """Segments of unequal size go every five minutes; a sweep comes every ten seconds."""
    dice = random.Random(seed)
    deleted = 0
    steps: list[Step] = []
    before: int | None = None
    position = 60_000 + dice.randrange(1_000)
    told: list[tuple[int, int]] = []
    at = 0
    while deleted <= position:
        if at % (5 * MINUTE) == 0 and at:
            deleted += dice.randrange(900, 1_100)
        steps = add_step(steps, before, deleted, at)
        before = deleted
        if len(steps) >= 6 and (found := risk(steps, position, 0.0, at)):
            told.append((at, found.loses_at))
        at += 10_000
    lost_at = at - 10_000
    far = [(when, said) for when, said in told if lost_at - when > 30 * MINUTE]
    assert len(far) > 1_000
    wrong = [abs(said - lost_at) / (lost_at - when) for when, said in far]
    assert max(wrong) < 0.10


def test_a_flow_that_copies_too_slowly_gains_time_and_one_that_keeps_up_is_safe() -> None:
    steps = [(second * 1_000, second * 100) for second in range(0, 100, 10)]
    at = 95_000
    stands = risk(steps, 50_000, 0.0, at)
    slow = risk(steps, 50_000, 50.0, at)
    assert stands is not None
    assert slow is not None
    assert stands.loses_at == pytest.approx(at + 405_000, rel=0.03)
    assert slow.loses_at - at == pytest.approx(2 * (stands.loses_at - at), rel=0.03)
    assert risk(steps, 50_000, 85.0, at) is None
    assert risk(steps, 50_000, None, at) is None


def test_what_is_caught_up_or_close_behind_the_end_is_never_at_risk() -> None:
    steps = [(second * 1_000, second * 100) for second in range(0, 100, 10)]
    facts = {"earliest": 9_000, "pace": deletion_pace(steps, 95_000), "at": 95_000}
    assert risk_of(TP, position=20_000, end=20_000, copied=0.0, **facts) is None
    assert risk_of(TP, position=19_900, end=20_000, copied=10.0, **facts) is None
    assert risk_of(TP, position=19_900, end=20_000, copied=0.0, **facts) is not None


def test_nothing_is_foretold_before_a_second_step_nor_after_deletion_came_to_rest() -> None:
    assert deletion_pace([], 0) is None
    assert deletion_pace([(0, 100)], 5_000) is None
    steps = [(0, 100), (10_000, 200), (20_000, 300)]
    moving = deletion_pace(steps, 25_000)
    late = deletion_pace(steps, 50_000)
    assert moving is not None
    assert late is not None
    assert moving.per_second == pytest.approx(10)
    assert late.per_second == pytest.approx(5)
    assert deletion_pace(steps, 20_000 + 7 * 10_000) is None


def test_a_topic_made_anew_begins_a_new_count() -> None:
    steps = add_step([(0, 100), (10_000, 200)], 200, 0, 20_000)
    assert steps == []


def test_what_is_lost_already_is_said_in_numbers() -> None:
    gone = risk([(0, 100), (10_000, 500)], 380, None, 12_000)
    assert gone is not None
    assert gone.lost == 120
    words = describe_risk(gone, 1, 12_000)
    assert words == "partition 3 of orders lost 120 records to retention; 1 more partition at risk"


def test_the_sentence_says_where_when_and_why() -> None:
    told = RetentionRisk(
        topic="orders",
        partition=3,
        position=940_000,
        earliest=4_000,
        end=2_000_000,
        loses_at=7_800_000,
        per_second=120.0,
        copied_per_second=0.0,
    )
    assert describe_risk(told, 0, 0) == (
        "partition 3 of orders will lose data in 2 h 10 min: retention deletes 120 records/s, "
        "936,000 records remain between"
    )


def test_a_rate_of_copying_is_told_over_a_minute_and_not_from_one_look() -> None:
    track = update_progress(None, 100, 0)
    assert copy_rate(track) is None
    for at in range(10_000, 200_000, 10_000):
        track = update_progress(track, 100 + at // 100, at)
    assert copy_rate(track) == pytest.approx(10)
    assert copy_rate(update_progress(track, 50, 210_000)) is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 10_000), min_size=2, max_size=40),
    st.integers(0, 10**6),
    st.floats(0, 1_000),
)
def test_a_forecast_is_never_in_the_past_and_never_for_what_is_caught_up(
    sizes: list[int], ahead: int, copied: float
) -> None:
    steps: list[Step] = []
    earliest, before = 0, 0
    for number, size in enumerate(sizes):
        earliest += size
        steps = add_step(steps, before, earliest, number * 10_000)
        before = earliest
    at = len(sizes) * 10_000
    found = risk(steps, earliest + ahead, copied, at)
    assert found is None or found.loses_at >= at
    assert len(steps) <= 24
