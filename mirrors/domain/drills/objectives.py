"""The objectives of a flow (RPO, RTO), what a drill measured, and whether that meets them.

Invariants:
A. An objective that was not measured counts as missed.
B. An upper bound is judged as if it were the exact number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.formatting import count, duration, plural

LONGEST_S = 365 * 86_400
MOST_RECORDS = 10**15
# Blockers that a remark names.
_NAMED = 3
# no_objectives: it ended well, and there was no objective to judge it by.
Outcome = Literal["passed", "no_objectives", "failed"]
_LIMITS = {"rpo_seconds": LONGEST_S, "rpo_records": MOST_RECORDS, "rto_seconds": LONGEST_S}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objectives:
    """The objectives; None is none. RPO in seconds: age of the oldest record not replicated."""

    rpo_seconds: int | None = None
    rpo_records: int | None = None
    rto_seconds: int | None = None

    def check(self) -> Objectives:
        wrong: dict[str, list[str]] = {}
        for name, most in _LIMITS.items():
            value = getattr(self, name)
            least = 1 if name == "rto_seconds" else 0
            if value is not None and not least <= value <= most:
                wrong[name] = [
                    f"It must be a whole number from {least} to {most:,}, not {value:,}."
                ]
        if wrong:
            raise InvalidSettings(wrong)
        return self

    @property
    def is_set(self) -> bool:
        return any(value is not None for value in dataclasses.astuple(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """The numbers of one drill. A number is None if unknown; its `…_why` says why."""

    groups: int = 0
    places: int = 0
    blockers: tuple[str, ...] = ()
    proven: int = 0
    differs: int = 0
    unproven: int = 0
    unread: int = 0
    re_reads: int | None = None
    loss: int | None = None
    loss_is: str = "unknown"
    loss_why: str = ""
    rpo_ms: int | None = None
    rpo_why: str = ""
    rto_ms: int | None = None
    rto_why: str = ""
    first_record_ms: int | None = None
    drain_ms: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Breach:
    """One missed objective. `by` is None if the amount is unknown."""

    objective: str
    wanted: int
    found: int | None
    by: int | None
    sentence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a drill. `faults` failed apart from objectives; `remarks` only inform."""

    outcome: Outcome
    sentence: str
    breaches: tuple[Breach, ...] = ()
    faults: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "passed": self.passed}


def result_text(state: str, verification: str) -> str:
    """Return the state of a drill as text, with its verification where no objective was set."""
    if state != "no_objectives":
        return state
    verified = {
        "verified": "offsets verified",
        "partly_verified": "offsets partly verified",
        "not_verified": "offsets not verified",
    }.get(verification, "no offsets to verify")
    return f"{verified}, no objectives set"


def judge(objectives: Objectives, measured: Measurement, *, trouble: str = "") -> Verdict:
    """Judge a drill. `trouble` says why the simulation did not succeed; empty if it did."""
    faults = tuple(_faults(measured, trouble))
    breaches = () if trouble and not measured.places else tuple(_breaches(objectives, measured))
    remarks = tuple(_remarks(objectives, measured, trouble))
    failed = bool(faults or breaches)
    text = [*faults, *(breach.sentence for breach in breaches)]
    sentence = " ".join(text) if failed else _success_sentence(objectives, measured)
    outcome: Outcome = "passed" if objectives.is_set else "no_objectives"
    return Verdict(
        outcome="failed" if failed else outcome,
        sentence=sentence,
        breaches=breaches,
        faults=faults,
        remarks=remarks,
    )


def _faults(measured: Measurement, trouble: str) -> Iterator[str]:
    if trouble:
        yield trouble
    elif measured.differs or measured.unread:
        yield (
            f"{plural(measured.differs, 'group-partition')} would resume at a wrong record and "
            f"{measured.unread:,} could not be read."
        )
    elif measured.places and not measured.proven:
        yield (
            f"None of {plural(measured.places, 'group-partition')} could be verified. A drill "
            "passes only if it was compared with the source."
        )


def _breaches(objectives: Objectives, measured: Measurement) -> Iterator[Breach]:
    if (wanted := objectives.rpo_records) is not None:
        most = ", at most" if measured.loss_is == "at_most" else ""
        yield from _missed(
            "rpo_records",
            wanted,
            measured.loss,
            why=measured.loss_why,
            miss="The RPO in records was missed by {by}: {found} would be lost"
            f"{most}, the objective is {{wanted}}.",
            shape=count,
        )
    if (wanted := objectives.rpo_seconds) is not None:
        yield from _missed(
            "rpo_seconds",
            wanted * 1000,
            measured.rpo_ms,
            why=measured.rpo_why,
            miss="The RPO was missed by {by}: the oldest record that was not replicated was "
            "{found} old, the objective is {wanted}.",
            shape=duration,
        )
    if (wanted := objectives.rto_seconds) is not None:
        yield from _missed(
            "rto_seconds",
            wanted * 1000,
            measured.rto_ms,
            why=measured.rto_why,
            miss="The RTO was missed by {by}: all groups had resumed after {found}, the objective "
            "is {wanted}.",
            shape=duration,
        )


def _missed(
    name: str, wanted: int, found: int | None, *, why: str, miss: str, shape: Any
) -> Iterator[Breach]:
    if found is None:
        title = {"rpo_records": "The RPO in records", "rpo_seconds": "The RPO"}.get(name, "The RTO")
        reason = why or "the reason is unknown"
        text = f"{title} could not be measured, so it counts as missed: {reason}."
        yield Breach(objective=name, wanted=wanted, found=None, by=None, sentence=text)
    elif found > wanted:
        by = found - wanted
        text = miss.format(by=shape(by), found=shape(found), wanted=shape(wanted))
        yield Breach(objective=name, wanted=wanted, found=found, by=by, sentence=text)


def _remarks(objectives: Objectives, measured: Measurement, trouble: str) -> Iterator[str]:
    if not objectives.is_set:
        yield "The flow has no objectives, so only the resume offsets of its groups were verified."
    if not measured.places and not trouble:
        yield "No consumer group has offsets in what this flow replicates, so none was verified."
    if measured.proven and measured.unproven:
        yield (
            f"Not verified: {measured.unproven:,} of {plural(measured.places, 'group-partition')}. "
            "The evidence has the reason for each."
        )
    if measured.blockers:
        more = len(measured.blockers) - _NAMED
        yield (
            f"{plural(len(measured.blockers), 'blocker')} would prevent a switchover: "
            f"{' '.join(measured.blockers[:_NAMED])}{f' And {more:,} more.' if more > 0 else ''}"
        )
    if measured.re_reads:
        yield f"{plural(measured.re_reads, 'record')} would be re-read."
    if measured.loss is None and objectives.rpo_records is None:
        yield f"The data loss is unknown: {measured.loss_why or 'no reason was given'}."


def _success_sentence(objectives: Objectives, measured: Measurement) -> str:
    parts = [
        f"Verified: {measured.proven:,} of {plural(measured.places, 'group-partition')} of "
        f"{plural(measured.groups, 'group')}."
    ]
    if measured.loss is not None:
        most = " at most" if measured.loss_is == "at_most" else ""
        parts.append(
            f"{plural(measured.loss, 'record')}{most} would be lost{_of(objectives.rpo_records)}."
        )
    if measured.rpo_ms is not None:
        wanted = _of_time(objectives.rpo_seconds)
        parts.append(f"The oldest of them was {duration(measured.rpo_ms)} old{wanted}.")
    if measured.rto_ms is not None:
        wanted = _of_time(objectives.rto_seconds)
        parts.append(f"All groups had resumed after {duration(measured.rto_ms)}{wanted}.")
    return " ".join(parts)


def _of(wanted: int | None) -> str:
    return "" if wanted is None else f" (objective {wanted:,})"


def _of_time(seconds: int | None) -> str:
    return "" if seconds is None else f" (objective {duration(seconds * 1000)})"
