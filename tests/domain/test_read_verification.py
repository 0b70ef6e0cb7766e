"""Verification by reading: any shift of the target against the source is counted exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.read_verification import (
    ReadRecord,
    ReadVerification,
    RuleRange,
    Samples,
    verify,
    verify_with_rule,
)
from tests.domain.cases import laws

FIRST = 1_000  # downstream


def seen(numbers: range, first: int = 0) -> list[ReadRecord]:
    return [ReadRecord(first + at, b"record %d" % at, at) for at in numbers]


def proof(*, offset: int, starts: int, copied: int, amount: int = 20) -> ReadVerification:
    """A group at `offset` that would start at the record `starts`, of `copied` in all."""
    return verify(
        Samples(
            source_after=seen(range(offset, min(copied, offset + amount))),
            target_after=seen(range(starts, min(copied, starts + amount)), FIRST),
            last_consumed=seen(range(offset - 1, offset))[0] if 0 < offset <= copied else None,
            target_before=seen(range(max(0, starts - 8), starts), FIRST),
        )
    )


@laws
@given(
    offset=st.integers(0, 60),
    behind=st.integers(0, 60),
    shift=st.integers(-15, 15),
)
def test_re_reads_and_jumps_are_counted_by_content(offset: int, behind: int, shift: int) -> None:
    copied = offset + behind
    starts = min(copied, max(0, offset + shift))
    found = proof(offset=offset, starts=starts, copied=copied)
    left = min(20, copied - offset)
    if starts <= offset:
        assert (found.re_reads, found.skipped) == (offset - starts, 0)
        assert found.verdict == ("proven" if starts == offset else "differs")
    elif starts - offset < left or (offset and starts - offset < 8):
        assert (found.re_reads, found.skipped) == (0, starts - offset)
        assert found.verdict == "differs"


def test_a_group_at_the_end_is_proven_by_its_last_consumed_record() -> None:
    found = proof(offset=30, starts=30, copied=30)
    assert (found.verdict, found.last_consumed_at, found.re_reads) == ("proven", FIRST + 29, 0)
    assert str(FIRST + 29) in found.reason


def test_other_records_in_the_same_place_are_no_proof() -> None:
    ours = [ReadRecord(row.offset, b"other", row.timestamp) for row in seen(range(5), FIRST)]
    found = verify(Samples(source_after=seen(range(5)), target_after=ours))
    assert (found.verdict, found.in_order, found.re_reads) == ("differs", False, None)
    compacted = verify(Samples(source_after=seen(range(5)), target_after=ours, compacted=True))
    assert compacted.verdict == "unproven"
    assert "compacted" in compacted.reason


def test_a_target_that_stamps_arrival_is_compared_without_times() -> None:
    ours = [ReadRecord(row.offset, row.digest, 99) for row in seen(range(5), FIRST)]
    theirs = seen(range(5))
    assert verify(Samples(source_after=theirs, target_after=ours)).verdict == "differs"
    loose = verify(Samples(source_after=theirs, target_after=ours, keeps_time=False))
    assert loose.verdict == "proven"


def test_without_the_source_nothing_is_called_proven() -> None:
    found = verify(Samples(source_after=None, target_after=seen(range(3))))
    assert (found.verdict, found.re_reads) == ("unproven", None)


def test_what_cannot_be_read_yet_is_no_proof_unless_the_record_before_it_is_there() -> None:
    found = verify(Samples(source_after=seen(range(5, 9)), target_after=()))
    assert (found.verdict, "cannot be read on the target yet" in found.reason) == ("unproven", True)
    before, last = seen(range(5), FIRST), seen(range(4, 5))[0]
    known = Samples(
        source_after=seen(range(5, 9)), target_after=(), last_consumed=last, target_before=before
    )
    assert verify(known).verdict == "proven"


def compared(offsets: int, records: int, *, is_same: bool = True) -> RuleRange:
    return RuleRange(offsets=offsets, records=records, is_same=is_same)


def with_rule(
    before: RuleRange, after: RuleRange, *, is_end: bool = False, reads: range | None = None
) -> tuple[str, str]:
    reads = range(after.records) if reads is None else reads
    found = verify_with_rule(
        1, before=before, after=after, is_end=is_end, start=FIRST, seen=seen(reads, FIRST)
    )
    return found.verdict, found.reason


def test_behind_a_rule_the_next_records_decide_or_else_those_before() -> None:
    some, none = compared(100, 70), compared(100, 0)
    differ = compared(100, 70, is_same=False)
    assert with_rule(differ, compared(400, 2)) == (
        "proven",
        "after rule 1, the next 2 records are the same, in the same order",
    )
    assert with_rule(some, differ)[0] == "differs"
    assert with_rule(some, none) == (
        "proven",
        "after rule 1, the last 70 records before its offset are the same, and the rule keeps none "
        "of the next 100",
    )
    for before in (none, differ):
        verdict, reason = with_rule(before, none)
        assert (verdict, reason[:25]) == ("unproven", "rule 1 keeps no record ne")


def test_behind_a_rule_a_reader_that_gets_nothing_is_no_proof() -> None:
    verdict, reason = with_rule(compared(100, 70), compared(400, 2), reads=range(0))
    assert (verdict, reason) == (
        "unproven",
        f"a reader that begins at offset {FIRST} got no record",
    )


def test_behind_a_rule_a_group_at_the_end_reads_nothing() -> None:
    some, none = compared(100, 70), compared(0, 0)
    assert with_rule(some, none, is_end=True)[0] == "proven"
    assert with_rule(compared(0, 0), none, is_end=True) == (
        "proven",
        "after rule 1, no replicated record is left for it to read",
    )
    # It reads records again, and nothing near shows that they are those before its offset.
    assert with_rule(compared(0, 0), none, is_end=True, reads=range(2))[0] == "unproven"
    assert with_rule(some, none, reads=range(-1, 3))[0] == "differs"
