"""What a simulation found: a row a group and partition, totals, and the sentence that says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from mirrors.domain.failover.plan import FailoverPlan
from mirrors.domain.failover.proof import Proof
from mirrors.domain.failover.shapes import PlacePlan
from mirrors.domain.figures import duration, plural

# counted: the records were read. at_most: too many to read, so offsets. The rest as in a plan.
LossIs = Literal["counted", "at_most", "last_known", "unknown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """Records that are not downstream; `unread` of them the group has not consumed either."""

    records: int | None
    unread: int | None
    how: LossIs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """What the throw-away group's reader saw; `trouble` says why it saw nothing."""

    first_offset: int | None = None
    first_timestamp: int | None = None
    first_record_ms: int | None = None
    records: int = 0
    ended: bool = False
    trouble: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlaceResult:
    """One group in one partition: the plan's place with what reading it showed."""

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


def place_result(
    plan: PlacePlan, *, loss: Loss, reading: Reading | None, proof: Proof | None, rate: float | None
) -> PlaceResult:
    """`reading` is None where there was no offset to start at; `rate` is records a second."""
    verdict, reason = "unproven", plan.reason
    if reading is not None and reading.trouble:
        verdict, reason = "unread", reading.trouble
    elif proof is not None:
        verdict, reason = proof.verdict, proof.reason
    drained = reading is not None and reading.ended
    waiting = reading.records if reading is not None and drained else plan.waiting
    return PlaceResult(
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
    )


def _drain_ms(waiting: int | None, rate: float | None) -> int | None:
    if waiting == 0:
        return 0
    return None if waiting is None or not rate else round(waiting / rate * 1000)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Totals:
    """Over all group-partitions; loss counts each partition once, whichever groups read it.

    `loss_unknown`: the number of partitions whose loss is unknown.
    """

    groups: int
    places: int
    proven: int
    differs: int
    unproven: int
    unread: int
    loss: int | None
    loss_is: LossIs
    loss_unknown: int
    re_reads: int | None
    first_record_ms: int | None
    drain_ms: int | None


def sum_up(rows: Sequence[PlaceResult], losses: Iterable[Loss]) -> Totals:
    """One unknown makes its sum unknown (None); `loss_is` is the least certain way of counting."""
    known = list(losses)
    hows = {loss.how for loss in known}
    order: tuple[LossIs, ...] = ("unknown", "last_known", "at_most", "counted")
    verdicts = [row.verdict for row in rows]
    firsts = [row.first_record_ms for row in rows if row.first_record_ms is not None]
    repeats = [row.re_reads for row in rows]
    return Totals(
        groups=len({row.group for row in rows}),
        places=len(rows),
        proven=verdicts.count("proven"),
        differs=verdicts.count("differs"),
        unproven=verdicts.count("unproven"),
        unread=verdicts.count("unread"),
        loss=None
        if "unknown" in hows
        else sum(loss.records for loss in known if loss.records is not None),
        loss_is=next((how for how in order if how in hows), "counted"),
        loss_unknown=sum(loss.records is None or loss.how == "unknown" for loss in known),
        re_reads=None
        if None in repeats
        else sum(repeat for repeat in repeats if repeat is not None),
        first_record_ms=max(firsts, default=None),
        drain_ms=_longest_drain(rows),
    )


def _longest_drain(rows: Iterable[PlaceResult]) -> int | None:
    """A group drains its partitions with one reader: the slowest group counts."""
    sums: dict[str, int] = {}
    for row in rows:
        if row.drain_ms is None:
            return None
        sums[row.group] = sums.get(row.group, 0) + row.drain_ms
    return max(sums.values(), default=None)


def sentence(plan: FailoverPlan, totals: Totals, *, source: str, target: str) -> str:
    """What a person at 3 a.m. needs to hear of it."""
    parts = [_loss_words(plan, totals, source)]
    if not totals.places:
        parts.append("No consumer group has offsets in what this flow copies.")
        return " ".join(parts)
    where = f"{plural(totals.places, 'place')} of {plural(totals.groups, 'group')}"
    if totals.proven == totals.places == 1:
        parts.append(f"The group starts at the right record on {target}, proven by content.")
    elif totals.proven == totals.places:
        parts.append(f"All {where} start at the right record on {target}, proven by content.")
    else:
        parts.append(f"{totals.proven:,} of {where} are proven by content on {target}.")
    if totals.differs:
        parts.append(f"{totals.differs:,} would start at a wrong record.")
    if totals.unread:
        parts.append(f"{totals.unread:,} could not be read.")
    if totals.re_reads == 0:
        parts.append("Nothing is read twice.")
    elif totals.re_reads is not None:
        parts.append(f"{plural(totals.re_reads, 'record')} would be read twice.")
    else:
        parts.append("How much is read twice is not known everywhere.")
    if totals.first_record_ms is not None:
        parts.append(f"First records came within {duration(totals.first_record_ms)}.")
    return " ".join(parts)


def _loss_words(plan: FailoverPlan, totals: Totals, source: str) -> str:
    if totals.loss is None:
        return f"What is lost with {source} is not known."
    amount = plural(totals.loss, "record")
    if totals.loss_is == "last_known":
        ages = [
            row.source_end_age_ms for row in plan.partitions if row.source_end_age_ms is not None
        ]
        old = duration(max(ages, default=None))
        return (
            f"By figures up to {old} old {amount} would be lost with {source}, "
            "and all that came since."
        )
    most = " at most" if totals.loss_is == "at_most" else ""
    return f"If {source} died now, {amount}{most} would be lost."


def to_json(rows: Iterable[PlaceResult], totals: Totals, **more: Any) -> dict[str, Any]:
    return {
        **more,
        "totals": dataclasses.asdict(totals),
        "partitions": [dataclasses.asdict(row) for row in rows],
    }
