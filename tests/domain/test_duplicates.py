"""At least once: records written after the commit count as duplicates when written again, once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.gaps.foreign_records import ObservedBatch, UnmappedRange
from spark_runner.engine.recovery.duplicates import Duplicates, attempts

OURS, FORMER, OTHER = 7, 6, 8


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 9), max_size=4),  # records by commit
            st.integers(0, 9),  # records after the last one, and then it dies
        ),
        max_size=8,
    )
)
def test_at_each_commit_it_is_the_number_a_reader_counts_below_the_position(
    lives: list[tuple[list[int], int]],
) -> None:
    """The target as a list of upstream offsets; a life begins at the position."""
    there: list[int] = []
    known, position, next_downstream = Duplicates(), 0, 0
    for commits, left in lives:
        behind = Counter(_rising(there[next_downstream:]))
        now = known.with_owed(behind.values())
        at = position
        for landed in commits:
            there += range(at, at + landed)
            at += landed
            now = now.after(landed)
            known, position, next_downstream = now, at, len(there)
            copies = [offset for offset in there if offset < position]
            assert known.records == len(copies) - len(set(copies))
        there += range(at, at + left)


def _rising(offsets: list[int]) -> list[int]:
    """Which attempt each belongs to: another one begins where the offsets fall back."""
    found, attempt = [], 0
    for at, offset in enumerate(offsets):
        attempt += at > 0 and offset <= offsets[at - 1]
        found.append(attempt)
    return found


def test_what_is_left_is_told_by_attempt_and_only_ours_counts() -> None:
    log = [
        ObservedBatch(5, 9, 5, OURS, False, 1),  # committed
        ObservedBatch(10, 12, 3, OURS, False, 1),
        ObservedBatch(13, 13, 1, OTHER, False, 0),
        ObservedBatch(14, 15, 2, OURS, False, 2),
        ObservedBatch(16, 18, 3, OURS, False, 2),
        ObservedBatch(19, 19, 1, OURS, True, 3),  # a marker
        ObservedBatch(20, 21, 0, OURS, False, 3),  # aborted
        ObservedBatch(22, 25, 4, FORMER, False, 2),
        ObservedBatch(26, 30, 5, OURS, False, 4),  # landed now
    ]
    assert attempts(UnmappedRange(10, 26), log[::-1], {OURS, FORMER}) == (3, 5, 4)


def test_a_stretch_that_is_passed_owes_nothing() -> None:
    assert Duplicates(4, (3, 8)).after(3) == Duplicates(10, (5,))
    assert Duplicates(10, (5,)).after(20) == Duplicates(15)
    assert Duplicates(15).after(7) == Duplicates(15)
