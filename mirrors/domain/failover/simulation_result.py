"""The result of a simulation: one row per group and partition, totals, and a summary."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from mirrors.domain.account.partition import Certainty
from mirrors.domain.account.sentences import amount
from mirrors.domain.failover.findings.blockers import UNREAD
from mirrors.domain.failover.plan import FailoverPlan, sum_owed
from mirrors.domain.failover.plan_types import GroupPartitionPlan
from mirrors.domain.failover.read_verification import ReadVerification
from mirrors.domain.formatting import duration, duration_range, plural

# counted: the records were read. at_most: too many to read, so offsets. The rest as in a plan.
LossIs = Literal["counted", "at_most", "last_known", "unknown"]
# Topics and decisions named in one sentence.
_NAMED = 3
_NO_RE_READS = "No records are re-read."
_CERTAINTIES: dict[LossIs, Certainty] = {
    "counted": "counted",
    "at_most": "at_most",
    "last_known": "at_least",
    "unknown": "unknown",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeLoss:
    """Records that the target lacks; the group has not consumed `unread` of them either.

    `least` is a lower bound if the figure is `last_known`.
    """

    records: int | None
    unread: int | None
    how: LossIs
    least: int = 0

    @property
    def stated(self) -> tuple[int | None, Certainty]:
        is_old = self.how == "last_known" and self.records is not None
        return self.least if is_old else self.records, _CERTAINTIES[self.how]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupReadResult:
    """What the reader of the temporary group read; `trouble` says why it read nothing."""

    first_offset: int | None = None
    first_timestamp: int | None = None
    first_record_ms: int | None = None
    records: int = 0
    ended: bool = False
    trouble: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupPartitionResult:
    """One group in one partition: the plan's row with the result of reading it."""

    group: str
    topic: str
    partition: int
    remote_topic: str
    source_offset: int | None
    downstream_offset: int | None
    outcome: str
    verdict: str
    loss: int | None
    loss_is: LossIs
    unread_loss: int | None
    re_reads: int | None
    skipped: int | None
    in_order: bool | None
    compared: int
    last_consumed_at: int | None
    first_offset: int | None
    first_timestamp: int | None
    first_record_ms: int | None
    waiting: int | None
    drain_ms: int | None
    reason: str
    seen_at: int | None = None
    route: str = ""


def group_partition_result(
    plan: GroupPartitionPlan,
    *,
    loss: RangeLoss,
    reading: GroupReadResult | None,
    proof: ReadVerification | None,
    rate: float | None,
) -> GroupPartitionResult:
    """Return the row. `reading` is None without an offset to start at; `rate`: records a second."""
    verdict, reason = "unproven", plan.reason
    if reading is not None and reading.trouble:
        verdict, reason = "unread", reading.trouble
    elif proof is not None:
        verdict, reason = proof.verdict, proof.reason
    drained = reading is not None and reading.ended
    waiting = reading.records if reading is not None and drained else plan.waiting
    return GroupPartitionResult(
        group=plan.group,
        topic=plan.topic,
        partition=plan.partition,
        remote_topic=plan.remote_topic,
        source_offset=plan.source_offset,
        downstream_offset=plan.downstream_offset,
        outcome=plan.outcome,
        verdict=verdict,
        loss=loss.records,
        loss_is=loss.how,
        unread_loss=loss.unread,
        re_reads=plan.re_reads if proof is None or proof.re_reads is None else proof.re_reads,
        skipped=None if proof is None else proof.skipped,
        in_order=None if proof is None else proof.in_order,
        compared=0 if proof is None else proof.compared,
        last_consumed_at=None if proof is None else proof.last_consumed_at,
        first_offset=None if reading is None else reading.first_offset,
        first_timestamp=None if reading is None else reading.first_timestamp,
        first_record_ms=None if reading is None else reading.first_record_ms,
        waiting=waiting,
        drain_ms=_drain_ms(waiting, rate),
        reason=reason,
        seen_at=plan.seen_at,
        route=plan.route,
    )


def _drain_ms(waiting: int | None, rate: float | None) -> int | None:
    if waiting == 0:
        return 0
    return None if waiting is None or not rate else round(waiting / rate * 1000)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Totals:
    """Totals over all group-partitions. The loss counts each partition once.

    `loss_known` sums what is known; `loss_unknown` counts the partitions without a figure. `loss`
    is the same sum for readers that cannot show a certainty: None if one is unknown. The same holds
    for re-reads.
    """

    groups: int
    places: int
    proven: int
    differs: int
    unproven: int
    unread: int
    loss: int | None
    loss_is: LossIs
    loss_known: int = 0
    loss_certainty: Certainty = "unknown"
    loss_unknown: int = 0
    re_reads: int | None
    re_reads_known: int = 0
    re_reads_certainty: Certainty = "unknown"
    re_reads_unknown: int = 0
    first_record_ms: int | None
    drain_ms: int | None


def sum_up(rows: Sequence[GroupPartitionResult], losses: Iterable[RangeLoss]) -> Totals:
    """Return the totals. `loss_is` and `loss_certainty` are those of the least certain part."""
    known = list(losses)
    hows = {loss.how for loss in known}
    order: tuple[LossIs, ...] = ("unknown", "last_known", "at_most", "counted")
    verdicts = [row.verdict for row in rows]
    firsts = [row.first_record_ms for row in rows if row.first_record_ms is not None]
    loss = sum_owed(one.stated for one in known)
    offsets = sum(one.records or 0 for one in known)
    repeats = sum_owed((row.re_reads, _certainty(row)) for row in rows)
    return Totals(
        groups=len({row.group for row in rows}),
        places=len(rows),
        proven=verdicts.count("proven"),
        differs=verdicts.count("differs"),
        unproven=verdicts.count("unproven"),
        unread=verdicts.count("unread"),
        loss=None if loss.unknown else offsets,
        loss_is=next((how for how in order if how in hows), "counted"),
        loss_known=loss.records,
        loss_certainty=loss.certainty,
        loss_unknown=loss.unknown,
        re_reads=None if repeats.unknown else repeats.records,
        re_reads_known=repeats.records,
        re_reads_certainty=repeats.certainty,
        re_reads_unknown=repeats.unknown,
        first_record_ms=max(firsts, default=None),
        drain_ms=_longest_drain(rows),
    )


def _certainty(row: GroupPartitionResult) -> Certainty:
    if row.re_reads is None:
        return "unknown"
    if row.seen_at is not None:
        return "at_least"
    is_exact = row.re_reads == 0 or row.verdict in ("proven", "differs")
    return "counted" if is_exact and row.outcome not in ("expired", "lower_bound") else "at_most"


def _longest_drain(rows: Iterable[GroupPartitionResult]) -> int | None:
    """Return the time of the slowest group: a group drains its partitions with one reader."""
    sums: dict[str, int] = {}
    for row in rows:
        if row.drain_ms is None:
            return None
        sums[row.group] = sums.get(row.group, 0) + row.drain_ms
    return max(sums.values(), default=None)


def sentence(plan: FailoverPlan, totals: Totals, *, source: str, target: str) -> str:
    """Return the summary for a person on call."""
    parts = [_loss_text(plan, totals, source)]
    parts += [row.sentence for row in plan.left_behind[:_NAMED]]
    if len(plan.left_behind) > _NAMED:
        parts.append(f"{len(plan.left_behind) - _NAMED:,} more are left behind by decision.")
    unread = _unread_text(plan)
    if not totals.places:
        nothing = "No consumer group has offsets in what this flow replicates."
        return " ".join([*parts, unread or nothing])
    parts += [_verified_text(totals, target, is_whole=not unread), *_problem_texts(totals)]
    parts += [unread] if unread else []
    parts.append(_re_read_text(totals))
    if totals.first_record_ms is not None:
        parts.append(f"Each group read its first record within {duration(totals.first_record_ms)}.")
    return " ".join(parts)


def _unread_text(plan: FailoverPlan) -> str:
    """Groups whose offsets cannot be read are in no other figure."""
    unread = sorted(one.where for one in plan.blockers if one.code in UNREAD)
    if not unread:
        return ""
    return f"Where {_names(unread)} would resume is unknown: the offsets cannot be read."


def _verified_text(totals: Totals, target: str, *, is_whole: bool) -> str:
    """`is_whole`: the offsets of every group were read."""
    groups, places = plural(totals.groups, "group"), plural(totals.places, "partition")
    where = f"{groups} ({places})"
    if totals.proven == totals.places and totals.groups == 1 and is_whole:
        one = "The group" if totals.places == 1 else f"The group ({places})"
        return f"{one} resumes at the correct record on {target}, verified by reading it."
    if totals.proven == totals.places and is_whole:
        return f"All {where} resume at the correct record on {target}, verified by reading it."
    many = plural(totals.places, "group-partition")
    are = "is" if totals.proven == 1 else "are"
    return f"{totals.proven:,} of {many} of {groups} {are} verified on {target}."


def _problem_texts(totals: Totals) -> Iterator[str]:
    if totals.differs:
        yield f"{totals.differs:,} would resume at a wrong record."
    if totals.unread:
        yield f"{totals.unread:,} could not be read."


def _re_read_text(totals: Totals) -> str:
    found = totals.re_reads_known
    if totals.re_reads_certainty == "counted":
        return f"{plural(found, 'record')} would be re-read." if found else _NO_RE_READS
    if totals.re_reads_certainty == "unknown":
        return f"How many records are re-read is unknown {_of_unknown(totals)}."
    rest = f"; unknown {_of_unknown(totals)}" if totals.re_reads_unknown else ""
    if not found:
        return (
            f"Records that groups have consumed since they were last seen would be re-read{rest}."
        )
    return f"{_capitalized(amount(found, totals.re_reads_certainty))} would be re-read{rest}."


def _of_unknown(totals: Totals) -> str:
    return f"for {plural(totals.re_reads_unknown, 'group-partition')}"


def _loss_text(plan: FailoverPlan, totals: Totals, source: str) -> str:
    """Return the loss: counted, "at most", "at least" with the age of the figures, or unknown."""
    rows = plan.every_partition
    unknown = [row.topic for row in rows if row.loss is None]
    rest = f"unknown for {plural(totals.loss_unknown, 'partition')} of {_names(unknown)}"
    offsets = sum(row.loss or 0 for row in rows)
    seen = _last_seen([row.source_end_age_ms for row in rows if row.loss is not None])
    if totals.loss_certainty == "unknown":
        when = f" when it was {seen}" if seen else ""
        known = f"{offsets:,} by offsets{when}; " if offsets else ""
        return f"The data loss if {source} fails now is unknown ({known}{rest})."
    text = f"If {source} fails now, {amount(totals.loss_known, totals.loss_certainty)}"
    why = ""
    if totals.loss_certainty == "at_most":
        why = " (by offsets)"
    elif seen:
        more = f"{offsets:,} by offsets when " if offsets > totals.loss_known else ""
        why = f" ({more}{source} was {seen})"
    more = f"; {rest}" if totals.loss_unknown else ""
    return f"{text} would be lost{why}{more}."


def _last_seen(ages: Sequence[int | None]) -> str:
    """`last seen 2 s to 19 s before`; "" where every figure was read for this plan (None)."""
    if all(age is None for age in ages):
        return ""
    return f"last seen {duration_range([age or 0 for age in ages])} before"


def _names(topics: Iterable[str]) -> str:
    names = sorted({topic or "topics that are not visible to the principal" for topic in topics})
    more = " and others" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def to_json(rows: Iterable[GroupPartitionResult], totals: Totals, **more: Any) -> dict[str, Any]:
    return {
        **more,
        "totals": dataclasses.asdict(totals),
        "partitions": [dataclasses.asdict(row) for row in rows],
    }
