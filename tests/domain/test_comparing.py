"""Comparison: one record flipped, dropped, swapped or duplicated is found, with its offset."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.comparison.alignment import MOST, Aligner, Difference, Row
from mirrors.domain.comparison.digests import SideDigest, chain, chunk_boundaries, compare_chunks
from mirrors.domain.comparison.findings import (
    Aspect,
    content_finding,
    group_findings,
    with_later_translations,
)
from mirrors.domain.comparison.outcome import Content, judge, sentence
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.translation import Translation

SIZES = st.integers(2, 900)
FAULTS = ("flipped", "dropped", "swapped", "doubled")


def digest(text: object) -> bytes:
    return hashlib.blake2b(str(text).encode(), digest_size=16).digest()


def rows(contents: list[object], *, first: int = 0, step: int = 1) -> list[Row]:
    return [
        Row(first + at * step, digest(content), (content, content, "", 0))
        for at, content in enumerate(contents)
    ]


def faulty(contents: list[object], fault: str, at: int) -> list[object]:
    copy = list(contents)
    if fault == "flipped":
        copy[at] = "another"
    elif fault == "dropped":
        del copy[at]
    elif fault == "swapped":
        copy[at], copy[at + 1] = copy[at + 1], copy[at]
    else:
        copy.insert(at + 1, copy[at])
    return copy


def align(left: list[Row], right: list[Row], *, piece: int = 100) -> list[Difference]:
    """As a reader feeds it: piece by piece, whichever side it wants."""
    aligner = Aligner()
    sides = [list(left), list(right)]
    aligner.end(left=not left, right=not right)
    while any(aligner.wants) and not aligner.is_over:
        wants = aligner.wants
        if wants[0]:
            taken, sides[0] = sides[0][:piece], sides[0][piece:]
            aligner.feed(left=taken)
            aligner.end(left=not sides[0])
        if wants[1]:
            taken, sides[1] = sides[1][:piece], sides[1][piece:]
            aligner.feed(right=taken)
            aligner.end(right=not sides[1])
    return aligner.differences()


@given(SIZES, st.sampled_from(FAULTS), st.data(), st.integers(1, 700))
def test_any_single_fault_is_one_difference_that_names_its_record(
    size: int, fault: str, data: st.DataObject, piece: int
) -> None:
    at = data.draw(st.integers(0, size - (2 if fault == "swapped" else 1)))
    source = rows(list(range(size)), first=50, step=2)
    target = rows(faulty(list(range(size)), fault, at), first=7)
    (found,) = align(source, target, piece=piece)
    here = 50 + 2 * at
    if fault == "flipped":
        assert (found.kind, found.source.offset, found.target.offset) == ("changed", here, 7 + at)  # type: ignore[union-attr]
    elif fault == "dropped":
        assert (found.kind, found.source.offset) == ("missing", here)  # type: ignore[union-attr]
    elif fault == "swapped":
        assert (found.kind, found.source.offset, found.twin) == ("swapped", here, here + 2)  # type: ignore[union-attr]
    else:
        assert (found.kind, found.target.offset, found.twin) == ("doubled", 8 + at, here)  # type: ignore[union-attr]


@given(st.lists(st.integers(0, 3), max_size=300), st.sampled_from(FAULTS), st.data())
def test_records_that_repeat_hide_no_fault(
    contents: list[object], fault: str, data: st.DataObject
) -> None:
    if len(contents) < 2:
        return
    at = data.draw(st.integers(0, len(contents) - 2))
    changed = faulty(contents, fault, at)
    found = align(rows(contents), rows(changed))
    assert bool(found) == (changed != contents)


@given(st.lists(st.integers(), max_size=400), st.integers(1, 90))
def test_what_is_the_same_has_no_difference(contents: list[object], piece: int) -> None:
    assert align(rows(contents, first=9), rows(contents), piece=piece) == []


@given(st.integers(20, 300), st.data())
def test_a_stretch_that_was_written_again_is_told_as_doubles(
    size: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, size - 2))
    end = data.draw(st.integers(start + 1, size))
    contents: list[object] = list(range(size))
    target = contents[:end] + contents[start:end] + contents[end:]
    found = align(rows(contents), rows(target))
    assert {row.kind for row in found} == {"doubled"}
    assert sorted(row.twin for row in found) == list(range(start, end))  # type: ignore[type-var]


def test_two_records_far_apart_that_changed_places_are_one_swap() -> None:
    contents: list[object] = list(range(2000))
    target = list(contents)
    target[10], target[1900] = target[1900], target[10]
    (found,) = align(rows(contents), rows(target))
    assert (found.kind, found.source, found.twin) == ("swapped", rows(contents)[10], 1900)


def test_what_differs_of_a_record_is_named() -> None:
    one = [Row(4, b"x" * 16, ("key", "value", "headers", 5))]
    two = [Row(9, b"y" * 16, ("key", "other", "headers", 6))]
    (found,) = align(one, two)
    assert found.fields == ("value", "timestamp")
    told = content_finding("orders", "east.orders", 3, found).sentence
    assert told == (
        "orders-3 offset 4 is a different record on the target (east.orders-3 offset 9): "
        "its value and timestamp differ."
    )


def test_sides_that_have_nothing_in_common_are_said_to_be_apart_within_bounds() -> None:
    found = align(
        rows([f"a{at}" for at in range(40_000)]), rows([f"b{at}" for at in range(40_000)])
    )
    assert found[-1].kind == "apart"
    assert len(found) <= MOST + 1


@given(SIZES, st.sampled_from(FAULTS), st.data())
def test_digests_of_chunks_differ_where_the_fault_is_and_nowhere_else(
    size: int, fault: str, data: st.DataObject
) -> None:
    """With a map that is right: each source offset's place on the target is known."""
    at = data.draw(st.integers(0, size - (2 if fault == "swapped" else 1)))
    contents: list[object] = list(range(size))
    shift = {"dropped": -1, "doubled": 1}.get(fault, 0)
    cuts = sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=8))})
    there = [cut + (shift if cut > at else 0) for cut in cuts]
    left, right = SideDigest(cuts), SideDigest(there)
    for side, records in ((left, rows(contents)), (right, rows(faulty(contents, fault, at)))):
        for row in records:
            side.add(row.offset, row.digest)
        side.reach(side.boundaries[-1])
    result = compare_chunks(left, right)
    wrong = {at} if fault != "swapped" else {at, at + 1}
    expected = [
        number
        for number, (one, two) in enumerate(pairwise(cuts))
        if any(one <= place < two for place in wrong)
    ]
    assert result.chunks == len(cuts) - 1
    assert [one for first, last in result.ranges for one in range(first, last)] == expected
    same = chain("", left, result.chunks) == chain("", right, result.chunks)
    assert not same


def test_only_chunks_that_were_read_on_both_sides_count() -> None:
    left, right = SideDigest([0, 10, 20, 30]), SideDigest([5, 15, 25, 35])
    for at in range(25):
        left.add(at, b"x")
    for at in range(5, 16):
        right.add(at, b"x")
    left.reach(25)
    right.reach(16)
    result = compare_chunks(left, right)
    assert (result.chunks, result.ranges, result.source_records) == (1, (), 10)


@pytest.mark.parametrize(("first", "end"), [(0, 0), (7, 8), (3, 1503), (0, 100_000)])
def test_borders_begin_at_the_first_offset_and_never_pass_the_end(first: int, end: int) -> None:
    cuts = chunk_boundaries(first, end, 4)
    assert cuts[0] == first
    assert len(cuts) >= 2
    assert cuts[-1] <= end
    assert cuts == sorted(cuts)


def make_group_partition(**facts: object) -> GroupPartition:
    at = Translation(upstream=5, downstream=50, outcome="exact")
    known = {"group": "g", "topic": "orders", "partition": 0, "source_offset": 5}
    return GroupPartition(**{**known, "translation": at, "target_offset": 50, **facts})  # type: ignore[arg-type]


def test_a_group_that_is_ahead_would_jump_over_records_and_one_behind_reads_again() -> None:
    seen = [
        make_group_partition(),
        make_group_partition(target_offset=53),
        make_group_partition(target_offset=48),
        make_group_partition(target_offset=None),
    ]
    found, aspect = group_findings(seen, {}, synced=True)
    assert [(row.kind, row.weight) for row in found] == [
        ("ahead", "differs"),
        ("behind", "note"),
        ("missing", "note"),
    ]
    assert (aspect.compared, aspect.differs) == (4, 1)
    assert "3 ahead: it would skip records" in found[0].sentence
    found, aspect = group_findings(
        [make_group_partition(target_offset=None)], {"g": "Stable"}, synced=False
    )
    assert (found, aspect.compared) == ([], 0)
    assert "sync.group.offsets.enabled is false" in aspect.left_out
    assert "members on the target" in aspect.left_out


def test_groups_that_cannot_be_read_are_counted_as_not_compared() -> None:
    unread = make_group_partition(source_offset=None, translation=None, trouble="No response.")
    gone = make_group_partition(source_offset=None, translation=None)
    found, aspect = group_findings([unread, gone], {}, synced=True, unreadable=["new"])
    assert (found, aspect.compared) == ([], 0)
    assert aspect.left_out == (
        "1 group-partition whose offset on the source could not be read; "
        "1 group whose offsets could not be read."
    )


def test_a_group_that_read_on_between_two_questions_is_not_ahead() -> None:
    later = Translation(upstream=9, downstream=54, outcome="exact")
    first = [
        make_group_partition(target_offset=53),
        make_group_partition(group="h", target_offset=60),
    ]
    again = [
        make_group_partition(translation=later, target_offset=54),
        make_group_partition(group="h", translation=later),
    ]
    settled = with_later_translations(first, again)
    found, aspect = group_findings(settled, {}, synced=True)
    assert [(row.name, row.kind) for row in found] == [("g", "behind"), ("h", "ahead")]
    assert aspect.differs == 1


def test_the_verdict_is_never_better_than_what_was_read() -> None:
    good = [Aspect(about="topic", compared=2, differs=0)]
    read = Content(partitions=2, same=2, source_records=10, target_records=10)
    assert judge(read, good, asked_content=True) == "same"
    fewer = Content(partitions=2, same=2, source_records=10, target_records=7)
    assert sentence(fewer, good, source="east", target="west", asked_content=True) == (
        "east and west hold the same 10 records in 2 partitions, apart from 3 that compaction "
        "already removed on west. Topics, topic configs and ACLs match."
    )
    cut = Content(
        partitions=2, same=1, source_records=10, target_records=10, unread=5, unread_partitions=1
    )
    assert judge(cut, good, asked_content=True) == "partly"
    assert judge(cut, good, asked_content=False) == "same"
    bad = [Aspect(about="config", compared=2, differs=2)]
    assert judge(read, bad, asked_content=True) == "differs"
    words = sentence(cut, bad, source="east", target="west", asked_content=True)
    assert words == (
        "east and west hold the same 10 records in 2 partitions. Not read: 5 source offsets of 1 "
        "partitions; each partition shows the reason. 2 topic configs differ."
    )
