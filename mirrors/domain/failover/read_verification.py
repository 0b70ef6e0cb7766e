"""Verification by reading: what a group reads on the target against the source's records.

Two records are equal if key, value and headers are equal, and so is the timestamp. The timestamp
does not count if the target's topic uses LogAppendTime.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mirrors.domain.formatting import plural

# proven: content was compared and agrees. differs: it does not. unproven: nothing to compare.
Verdict = Literal["proven", "differs", "unproven"]


class ReadRecord(NamedTuple):
    """One record that was read: its offset, the digest of its content, its timestamp."""

    offset: int
    digest: bytes
    timestamp: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """The records read for one group in one partition; None for a side that could not be read.

    - `source_after`: the copied records from the group's offset on. `target_after`: those from its
      downstream offset on.
    - `last_consumed`: the last copied record before the group's offset. `target_before`: the
      records before the downstream offset.
    """

    target_after: Sequence[ReadRecord]
    source_after: Sequence[ReadRecord] | None = None
    last_consumed: ReadRecord | None = None
    target_before: Sequence[ReadRecord] = ()
    keeps_time: bool = True
    compacted: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadVerification:
    """The result. `skipped`: copied records that the group would skip. None is unknown."""

    verdict: Verdict
    reason: str
    re_reads: int | None = None
    skipped: int | None = None
    in_order: bool | None = None
    compared: int = 0
    last_consumed_at: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleRange:
    """Source offsets whose records were compared after their rule with those of a target topic.

    - `offsets`: how many there are. `records`: the target's records of them.
    - `is_same`: both sides have the same records in the same order.
    """

    offsets: int
    records: int
    is_same: bool


def verify(samples: Samples) -> ReadVerification:
    """Return whether the first record downstream is the first that the group has not consumed."""
    if samples.source_after is None:
        return ReadVerification(verdict="unproven", reason="the source could not be read")
    theirs = [_content(row, samples) for row in samples.source_after]
    ours = [_content(row, samples) for row in samples.target_after]
    found = _aligned(theirs, ours)
    last = _last_consumed(samples)
    if found is None:
        return _different(samples, last)
    re_reads, skipped = found
    compared = min(len(theirs) - skipped, len(ours) - re_reads)
    if compared == 0:
        re_reads, skipped = _by_last_consumed(samples, last)
        if theirs and last is None:
            text = "its next records were replicated, but cannot be read on the target yet"
            return ReadVerification(verdict="unproven", reason=text)
    agrees = not re_reads and not skipped
    return ReadVerification(
        verdict="proven" if agrees else "differs",
        reason=_agreement_text(re_reads, skipped, compared, last),
        re_reads=re_reads,
        skipped=skipped,
        in_order=True,
        compared=compared,
        last_consumed_at=last,
    )


def verify_expired(
    start: int, seen: Sequence[ReadRecord], skipped: int | None, reason: str
) -> ReadVerification:
    """Verify a group that resumes at the remote partition's log start: a reader must begin there.

    The records that it read before are deleted on the source or the target, so there is no content
    to compare. `skipped`: unread records that the target no longer holds.
    """
    if any(row.offset < start for row in seen):
        text = f"a reader that begins at offset {start} gets earlier records"
        return ReadVerification(verdict="differs", reason=text, in_order=False)
    if skipped is None:
        text = f"{reason}; whether the target still has all unread records is unknown"
        return ReadVerification(verdict="unproven", reason=text)
    if skipped:
        text = f"{reason}; at most {plural(skipped, 'unread record')} deleted on the target"
        return ReadVerification(verdict="unproven", reason=text, skipped=skipped)
    return ReadVerification(verdict="proven", reason=reason, skipped=0, in_order=True)


def verify_lower_bound(
    start: int, seen: Sequence[ReadRecord], re_reads: int | None, reason: str
) -> ReadVerification:
    """Verify a group that resumes at a safe lower bound: a reader must begin there.

    The bound itself follows from records that were compared on both sides. `re_reads` is an upper
    bound.
    """
    if any(row.offset < start for row in seen):
        text = f"a reader that begins at offset {start} gets earlier records"
        return ReadVerification(verdict="differs", reason=text, in_order=False)
    return ReadVerification(
        verdict="proven", reason=reason, re_reads=re_reads, skipped=0, in_order=True
    )


def verify_with_rule(
    rule: int,
    *,
    before: RuleRange,
    after: RuleRange,
    is_end: bool,
    start: int,
    seen: Sequence[ReadRecord],
) -> ReadVerification:
    """Verify a group in a topic with a rule: the ranges meet at its offset on both sides.

    `is_end`: nothing is replicated behind `after`. `start`: the resume offset, where the reader of
    `seen` must begin.
    """
    if any(row.offset < start for row in seen):
        text = f"a reader that begins at offset {start} gets earlier records"
        return ReadVerification(verdict="differs", reason=text, in_order=False)
    if not after.is_same:
        text = (
            f"after rule {rule}, the next records on the target are not those of the source; "
            "compare the clusters for the first difference"
        )
        return ReadVerification(verdict="differs", reason=text, in_order=False)
    if after.records and not seen:
        text = f"a reader that begins at offset {start} got no record"
        return ReadVerification(verdict="unproven", reason=text)
    if after.records == 1:
        text = f"after rule {rule}, the next record is the same"
    elif after.records:
        text = (
            f"after rule {rule}, the next {after.records} records are the same, in the same order"
        )
    elif is_end and not seen:
        text = f"after rule {rule}, no replicated record is left for it to read"
    elif before.records and before.is_same:
        text = (
            f"after rule {rule}, the last {plural(before.records, 'record')} before its offset "
            f"are the same, and the rule keeps none of the next {after.offsets}"
        )
    else:
        text = f"rule {rule} keeps no record near its offset, so nothing was compared"
        return ReadVerification(verdict="unproven", reason=text)
    return ReadVerification(
        verdict="proven", reason=text, skipped=0, in_order=True, compared=after.records
    )


def _by_last_consumed(samples: Samples, last: int | None) -> tuple[int, int]:
    """Return (re-reads, skipped) by the last consumed record, if one side has no more records."""
    if last is None:
        return len(samples.target_after), 0
    again = sum(row.offset <= last for row in samples.target_after)
    jumped = sum(row.offset > last for row in samples.target_before)
    return again, jumped


def _aligned(theirs: list[object], ours: list[object]) -> tuple[int, int] | None:
    """Return (re-reads, skipped): the smallest shift of one side after which both agree."""
    if not theirs:
        # Nothing copied is left for the group: all that it finds it has consumed before.
        return len(ours), 0
    if not ours:
        return 0, 0
    for shift in range(max(len(theirs), len(ours))):
        if shift < len(ours) and _agree(theirs, ours[shift:]):
            return shift, 0
        if shift < len(theirs) and _agree(theirs[shift:], ours):
            return 0, shift
    return None


def _agree(one: list[object], two: list[object]) -> bool:
    common = min(len(one), len(two))
    return one[:common] == two[:common]


def _last_consumed(samples: Samples) -> int | None:
    """Return the downstream offset of the group's last consumed record: the nearest match."""
    wanted = samples.last_consumed
    if wanted is None:
        return None
    face = _content(wanted, samples)
    rows = [*samples.target_before, *samples.target_after]
    return next((row.offset for row in reversed(rows) if _content(row, samples) == face), None)


def _different(samples: Samples, last: int | None) -> ReadVerification:
    if samples.compacted:
        text = (
            "the topic is compacted, and both sides hold different records in this range; the "
            "resume offset comes from the offset map"
        )
        return ReadVerification(verdict="unproven", reason=text, last_consumed_at=last)
    amount = len(samples.target_after)
    text = f"none of the first {amount} records on the target is the next one of the source"
    return ReadVerification(verdict="differs", reason=text, in_order=False, last_consumed_at=last)


def _agreement_text(re_reads: int, skipped: int, compared: int, last: int | None) -> str:
    if re_reads:
        return f"it would re-read {plural(re_reads, 'record')} that it has consumed on the source"
    if skipped:
        return f"it would skip {plural(skipped, 'record')} that it has not consumed yet"
    if compared:
        if compared == 1:
            return "the next record is the same"
        return f"the next {compared} records are the same, in the same order"
    if last is not None:
        return f"its last consumed record is at offset {last} on the target, and none is left"
    return "no replicated record is left for it to read"


def _content(row: ReadRecord, samples: Samples) -> object:
    return (row.digest, row.timestamp) if samples.keeps_time else row.digest
