"""Verification of runs: properties over any totals, and the sentence of each outcome."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.verification_level import (
    NOT_REACHED,
    ComparisonCounts,
    Verification,
    verify,
)
from tests.domain.cases import laws

few = st.integers(0, 4)


@st.composite
def compared(draw: st.DrawFn) -> ComparisonCounts:
    proven, differs, unread, unproven = (draw(few) for _ in range(4))
    return ComparisonCounts(
        places=proven + differs + unread + unproven,
        proven=proven,
        differs=differs,
        unread=unread,
        unknown_losses=draw(few),
        blockers=draw(few),
    )


@laws
@given(seen=compared())
def test_verified_means_that_everything_was_compared_and_is_known(seen: ComparisonCounts) -> None:
    found = verify(seen)
    whole = 0 < seen.places == seen.proven and not seen.unknown_losses and not seen.blockers
    assert (found.verification == "verified") == whole
    assert (found.verification == "none") == (seen.places == 0)
    # A wrong record is never hidden by many right ones.
    if seen.differs:
        assert found.verification == "not_verified"
        assert f"{seen.differs} would resume at a wrong record" in found.reason
    if seen.places and not seen.proven:
        assert found.verification == "not_verified"


ORDER = ("not_verified", "none", "partly_verified", "verified")


@laws
@given(seen=compared(), field=st.sampled_from(("differs", "unread", "unknown_losses", "blockers")))
def test_one_more_trouble_never_makes_a_run_look_better(seen: ComparisonCounts, field: str) -> None:
    values = vars(seen) | {field: getattr(seen, field) + 1}
    if field in ("differs", "unread"):
        values["places"] += 1
    before, after = verify(seen).verification, verify(ComparisonCounts(**values)).verification
    if before != "none":
        assert ORDER.index(after) <= ORDER.index(before)
    assert after != "verified"


@pytest.mark.parametrize(
    ("seen", "verification", "words"),
    [
        (None, "none", NOT_REACHED),
        (ComparisonCounts(places=0, proven=0), "none", "nothing to verify"),
        (
            ComparisonCounts(places=33, proven=0),
            "not_verified",
            "0 of 33 group-partitions are verified.",
        ),
        (ComparisonCounts(places=1, proven=0), "not_verified", "group-partition is not verified"),
        (ComparisonCounts(places=1, proven=1), "verified", "resumes at the correct record"),
        (
            ComparisonCounts(places=2, proven=1),
            "partly_verified",
            "1 of 2 group-partitions is verified.",
        ),
        (
            ComparisonCounts(places=2, proven=2, unknown_losses=3, blockers=1),
            "partly_verified",
            "The loss is unknown for 3 partitions. 1 blocker is left.",
        ),
    ],
)
def test_each_outcome_says_why(
    seen: ComparisonCounts | None, verification: Verification, words: str
) -> None:
    found = verify(seen)
    assert found.verification == verification
    assert words in found.reason
