"""The verified range of a partition grows only over what was compared and is the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.comparison.verified import VerifiedRange, extended, summary

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def test_it_continues_stops_at_a_difference_and_goes_on_when_all_is_the_same_again() -> None:
    known = extended(None, first=100, end=200, differences=0, at=NOON)
    assert known == VerifiedRange(first=100, end=200, at=NOON, compared=200)
    later = NOON + timedelta(minutes=1)
    known = extended(known, first=200, end=300, differences=0, at=later)
    assert (known.first, known.end, known.at) == (100, 300, later)
    # Nothing new: the same offset is verified as of now.
    known = extended(known, first=300, end=300, differences=0, at=NOON + timedelta(minutes=2))
    assert (known.end, known.at) == (300, NOON + timedelta(minutes=2))
    broken = extended(known, first=300, end=400, differences=2, at=later)
    assert (broken.end, broken.at, broken.compared, broken.differences) == (
        300,
        known.at,
        400,
        2,
    )
    after = extended(broken, first=400, end=500, differences=0, at=later)
    assert (after.end, after.compared, after.differences) == (300, 500, 2)
    again = extended(known, first=250, end=300, differences=1, at=later)
    assert (again.end, again.compared, again.differences) == (250, 300, 1)
    # A sample of the end proves nothing about what differed.
    assert extended(after, first=450, end=500, differences=0, at=later).end == 300
    healed = extended(after, first=0, end=500, differences=0, at=later)
    assert (healed.first, healed.end, healed.differences) == (0, 500, 0)


def test_after_a_hole_it_begins_again() -> None:
    known = extended(None, first=0, end=10, differences=0, at=NOON)
    known = extended(known, first=15, end=20, differences=0, at=NOON)
    assert (known.first, known.end) == (15, 20)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.sets(st.integers(0, 80)))))
def test_it_never_covers_an_offset_that_was_not_compared_or_differed(
    runs: list[tuple[int, int, set[int]]],
) -> None:
    """Each comparison sees which offsets differ at that moment."""
    known = None
    last: dict[int, bool] = {}
    for first, size, wrong in runs:
        compared = range(first, first + size)
        differences = len(wrong.intersection(compared))
        known = extended(known, first=first, end=first + size, differences=differences, at=NOON)
        last |= {offset: offset not in wrong for offset in compared}
        if known.at is not None and not differences:
            assert all(offset in last for offset in range(known.first, known.end))


def test_the_sentence_has_the_oldest_time_and_what_is_missing() -> None:
    assert summary(3, [], 0) == "No comparison has verified records yet."
    times = [NOON + timedelta(seconds=5), NOON]
    assert summary(2, times, 0) == "Verified up to 2026-11-28 12:00:00 UTC."
    assert summary(3, times, 4) == (
        "Verified up to 2026-11-28 12:00:00 UTC in 2 of 3 partitions; 4 differences since then."
    )
