"""How far a simulation, drill or run verified where consumer groups resume, and why not further.

The state of a run says whether it ended without errors; its verification says what that showed.
- `verified`: every group-partition resumes at the correct record, the loss is known, and no blocker
  is left.
- `partly_verified`: some group-partitions are verified, or all of them while the loss is unknown or
  a blocker is left.
- `not_verified`: none is verified, or at least one would resume at a wrong record.
- `none`: nothing was compared, because the run did not get that far or there is nothing to compare.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, get_args

from mirrors.domain.formatting import plural

Verification = Literal["verified", "partly_verified", "not_verified", "none"]
VERIFICATIONS: tuple[Verification, ...] = get_args(Verification)
NOT_REACHED = "The run ended before it compared anything."


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonCounts:
    """What was compared, in group-partitions.

    - `differs`: would resume at a wrong record. `unread`: could not be read on the target.
    - `unknown_losses`: partitions whose loss is unknown.
    - `blockers`: blockers that no decision removed.
    """

    places: int
    proven: int
    differs: int = 0
    unread: int = 0
    unknown_losses: int = 0
    blockers: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationSummary:
    """The verification and its reason, one sentence or more."""

    verification: Verification
    reason: str


def verify(compared: ComparisonCounts | None) -> VerificationSummary:
    """Return the verification. `compared` is None if a run has not compared anything (yet)."""
    if compared is None:
        return VerificationSummary(verification="none", reason=NOT_REACHED)
    reason = " ".join(_sentences(compared))
    return VerificationSummary(verification=_verification(compared), reason=reason)


def _verification(compared: ComparisonCounts) -> Verification:
    if not compared.places:
        return "none"
    if compared.differs or not compared.proven:
        return "not_verified"
    if compared.proven < compared.places or compared.unknown_losses or compared.blockers:
        return "partly_verified"
    return "verified"


def _sentences(compared: ComparisonCounts) -> Iterator[str]:
    yield _verified_text(compared)
    if compared.differs:
        yield f"{compared.differs:,} would resume at a wrong record."
    if compared.unread:
        yield f"{compared.unread:,} could not be read on the target."
    if compared.unknown_losses:
        yield f"The loss is unknown for {plural(compared.unknown_losses, 'partition')}."
    if compared.blockers:
        left = "is" if compared.blockers == 1 else "are"
        yield f"{plural(compared.blockers, 'blocker')} {left} left."


def _verified_text(compared: ComparisonCounts) -> str:
    where = plural(compared.places, "group-partition")
    if not compared.places:
        return "No consumer group has offsets in what was compared, so there is nothing to verify."
    if compared.places == 1:
        found = "resumes at the correct record, verified by reading it"
        return f"The one group-partition {found if compared.proven else 'is not verified'}."
    if compared.proven == compared.places:
        return f"All {where} resume at the correct record, verified by reading it."
    return f"{compared.proven:,} of {where} {'is' if compared.proven == 1 else 'are'} verified."
