"""Where a group resumes: properties over any logs, and the message for an expired offset."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.offsets.translation import Translation
from tests.domain.cases import laws

offsets = st.integers(0, 60)


def make_group_partition(**seen: Any) -> GroupPartition:
    usual: dict[str, Any] = {"group": "g", "topic": "t", "partition": 0, "remote_topic": "east.t"}
    return GroupPartition(**usual | seen)


@st.composite
def places(draw: st.DrawFn) -> GroupPartition:
    """Everything was copied one to one, and both sides have deleted what they like."""
    end = draw(offsets)
    source, target = draw(st.integers(0, end)), draw(st.integers(0, end))
    offset = draw(st.none() | st.integers(0, 80))
    at = min(offset or 0, end)
    found = Translation(upstream=offset or 0, downstream=at, outcome="exact")
    unknown = Translation(upstream=offset or 0, downstream=None, outcome="unknown", reason="lost")
    is_asked = draw(st.booleans())
    return make_group_partition(
        source_offset=offset,
        translation=draw(st.sampled_from([found, unknown])),
        source_start=source if is_asked else None,
        source_end=draw(st.none() | st.just(end)),
        target_start=draw(st.none() | st.just(target)),
        target_end=draw(st.none() | st.just(end)),
        kept_from=source if is_asked and draw(st.booleans()) else None,
    )


@laws
@given(seen=places())
def test_nobody_resumes_outside_the_remote_log_or_past_an_unread_record_without_a_word(
    seen: GroupPartition,
) -> None:
    found = resume_offset_of(seen)
    assert found.reason or found.outcome == "exact"
    if found.downstream is None:
        assert found.outcome == "unknown"
        return
    assert (seen.target_start or 0) <= found.downstream <= (seen.target_end or 0)
    offset, end = seen.source_offset or 0, seen.source_end
    first_unread = 0 if end is not None and offset > end else offset
    if seen.is_empty_there:
        return
    if found.outcome == "expired":
        assert found.downstream == seen.target_start
        kept = max(first_unread, seen.source_start or 0)
        missed = max(0, found.downstream - kept)
        # What is said to be skipped is never less than what is.
        if seen.kept_from is not None or first_unread == offset:
            assert found.skipped is None or found.skipped >= missed
    else:
        assert found.downstream == min(first_unread, seen.target_end or 0)


@laws
@given(seen=places())
def test_an_offset_that_still_exists_on_both_sides_is_never_expired(seen: GroupPartition) -> None:
    offset, copied = seen.source_offset, seen.translation and seen.translation.downstream
    if offset is None or copied is None:
        return
    end = offset if seen.source_end is None else seen.source_end
    if (seen.source_start or 0) <= offset <= end and (seen.target_start or 0) <= copied:
        assert resume_offset_of(seen).outcome != "expired"


def test_a_group_that_idled_longer_than_the_retention_resumes_at_the_log_start() -> None:
    told = Translation(upstream=10, downstream=8, outcome="exact")
    usual = {"source_offset": 10, "translation": told, "source_start": 60, "source_end": 100}
    found = resume_offset_of(
        make_group_partition(**usual, target_start=5, target_end=90, kept_from=50)
    )
    assert found[:2] == (5, "expired")
    assert (found.re_reads, found.skipped) == (3, 0)
    assert "the committed offset 10 is below the source's log start 60" in found.reason
    assert "resumes at the log start of east.t-0, 5" in found.reason
    late = resume_offset_of(
        make_group_partition(**usual, target_start=55, target_end=90, kept_from=50)
    )
    assert (late.downstream, late.re_reads, late.skipped) == (55, 0, 5)
    # Without a log start nobody guesses.
    assert resume_offset_of(make_group_partition(**usual, target_end=90)).downstream is None
