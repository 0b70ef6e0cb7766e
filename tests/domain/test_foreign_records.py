"""What lies between our own batches: markers, aborted batches, or foreign records."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.gaps.foreign_records import (
    ForeignRange,
    ObservedBatch,
    UnmappedRange,
    foreign_ranges,
    foreign_sentence,
    unreported_ranges,
)

OURS, OTHER, NOBODY = 7, 8, -1


def batch(first: int, count: int = 1, *, by: int = OTHER, control: bool = False) -> ObservedBatch:
    return ObservedBatch(first, first + count - 1, count, by, control)


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([OURS, OTHER, NOBODY]), st.booleans()),
        max_size=12,
    ),
    st.integers(0, 50),
)
def test_exactly_the_offsets_of_others_are_told(
    drawn: list[tuple[int, int, bool]], start: int
) -> None:
    log, theirs, at = [], set(), start
    for count, by, control in drawn:
        count = 1 if control else count
        log.append(batch(at, count, by=by, control=control))
        if by != OURS and not control:
            theirs |= set(range(at, at + count))
        at += count
    found = foreign_ranges(UnmappedRange(start, at), log[::-1], {OURS})
    told = [offset for row in found for offset in range(row.first, row.last + 1)]
    assert (set(told), len(told)) == (theirs, len(theirs))
    assert sum(row.records for row in found) == len(theirs)
    # Neighbours are one stretch.
    assert all(one.last + 1 < two.first for one, two in itertools.pairwise(found))


def test_what_lies_outside_the_hole_or_was_aborted_is_nobodys() -> None:
    log = [batch(0), batch(5), batch(10), ObservedBatch(6, 7, 0, OTHER, False)]
    assert foreign_ranges(UnmappedRange(5, 10), log, {OURS}) == [ForeignRange(5, 5, 1)]


def test_what_was_told_is_not_told_again() -> None:
    rows = [ForeignRange(9, 9, 1), ForeignRange(3, 4, 2)]
    assert unreported_ranges(rows, 0) == [ForeignRange(3, 4, 2), ForeignRange(9, 9, 1)]
    assert unreported_ranges(rows, 5) == [ForeignRange(9, 9, 1)]
    assert unreported_ranges(rows, 10) == []


def test_the_sentence_has_every_offset_up_to_a_bound() -> None:
    words = foreign_sentence(
        [ForeignRange(7, 9, 3), ForeignRange(3, 3, 1)], remote="a.t-0", target="backup"
    )
    assert "wrote 4 records into a.t-0 on backup, at offsets 3, 7 to 9." in words
    assert "wrote 1 record into a.t-0 on backup, at offset 3." in foreign_sentence(
        [ForeignRange(3, 3, 1)], remote="a.t-0", target="backup"
    )
    many = [ForeignRange(2 * at, 2 * at, 1) for at in range(25)]
    assert "36, 38 and 5 more ranges" in foreign_sentence(many, remote="a.t-0", target="backup")
