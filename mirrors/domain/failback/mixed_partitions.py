"""What a group will read on the old primary where both directions wrote into one partition.

Each side has its own order there, so the streams cannot be aligned. The offset maps of both flows
give the copy of each record on the other side. So each record is judged alone: whether it was read
there already, whether it is equal, and whether unread records are skipped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from mirrors.domain.failover.read_verification import ReadRecord, ReadVerification, Verdict
from mirrors.domain.formatting import plural
from mirrors.domain.offsets.runs import Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedPartition:
    """One group in one partition: it is at offset `stands` there and shall resume at `place` here.

    - `after` and `before`: records here from `place` on, and before it.
    - `twins`: offset here to offset of the same record there. A record without one exists only
      here.
    - `theirs`: the records there that could be read.
    - `again`: how many records after `place` it has read already.
    """

    stands: int
    after: Sequence[ReadRecord]
    before: Sequence[ReadRecord]
    twins: Mapping[int, int]
    theirs: Mapping[int, ReadRecord]
    again: int
    keeps_time: bool = True


def count_re_reads(asked: int, place: int, *, forth: Iterable[Run], back: Iterable[Run]) -> int:
    """Return how many records from `place` on, on the old primary, a group at `asked` has read.

    `forth`: runs of the flow there, whose upstream is here. `back`: runs of the reverse flow.
    """
    again = sum(_within(run.length, place - run.upstream, asked - run.downstream) for run in forth)
    again += sum(_within(run.length, place - run.downstream, asked - run.upstream) for run in back)
    return again


def verify_mixed(case: MixedPartition) -> ReadVerification:
    """Return whether the group resumes at a record that it has not read, and skips none."""
    skipped = sum(case.twins.get(row.offset, -1) >= case.stands for row in case.before)
    last = next((row for row in reversed(case.before) if row.offset in case.twins), None)
    rows = [row for row in case.after if row.offset in case.twins]
    known = [row for row in rows if case.twins[row.offset] in case.theirs]
    unread = [at for row in rows if (at := case.twins[row.offset]) >= case.stands]
    wrong = _wrong(case, [*known, *_known(case, last)], skipped)
    verdict: Verdict = "differs" if wrong else "proven"
    if not wrong and rows and not known:
        verdict = "unproven"
        wrong = "its next records could not be read on the side that it leaves"
    return ReadVerification(
        verdict=verdict,
        reason=wrong or _agreement_text(case, len(known)),
        re_reads=case.again,
        skipped=skipped,
        in_order=unread == sorted(unread),
        compared=len(known),
        last_consumed_at=None if last is None or skipped else last.offset,
    )


def _wrong(case: MixedPartition, known: Sequence[ReadRecord], skipped: int) -> str:
    other = next((row for row in known if not _same(case, row)), None)
    if other is not None:
        return f"the record at offset {other.offset} differs from the one that the offset maps name"
    if skipped:
        return f"it would skip {plural(skipped, 'record')} that it has not read yet"
    if case.after and case.twins.get(case.after[0].offset, case.stands) < case.stands:
        return "it would resume at a record that it has already read"
    return ""


def _within(length: int, first: int, end: int) -> int:
    return max(0, min(length, end) - max(0, first))


def _known(case: MixedPartition, row: ReadRecord | None) -> list[ReadRecord]:
    return [row] if row is not None and case.twins[row.offset] in case.theirs else []


def _same(case: MixedPartition, row: ReadRecord) -> bool:
    there = case.theirs[case.twins[row.offset]]
    # A record from before 1970 got the time of its replication.
    timed = case.keeps_time and row.timestamp > 0 and there.timestamp > 0
    return row.digest == there.digest and (not timed or row.timestamp == there.timestamp)


def _agreement_text(case: MixedPartition, compared: int) -> str:
    if not case.after:
        return "it has read all records"
    parts = [
        f"the next {plural(compared, 'record')} of both sides are the same, compared one by one"
    ]
    only = sum(row.offset not in case.twins for row in case.after)
    if only:
        parts.append(f"{plural(only, 'record')} among the next {len(case.after)} exist only here")
    if case.again:
        parts.append(
            f"it re-reads {plural(case.again, 'record')}: each side has its own order, and here "
            "they follow records that it has not read"
        )
    return "; ".join(parts)
