"""Verification by reading: any shift of the target against the source is counted exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.read_verification import ReadRecord, ReadVerification, Samples, verify
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
