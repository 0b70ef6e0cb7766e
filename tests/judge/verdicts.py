"""Compares a claim of the product with the truth; pure functions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from tests.judge.ledger import Bounds

Certainty = Literal["counted", "at_most", "at_least", "unknown"]
Kind = Literal[
    "too_good",
    "untrue",
    "vague",
    "unknown_without_cause",
    "silent",
    "wrong_resume",
    "stopped_behind_fence",
    "broken",
]
# Share of statements that may be unknown although all clusters respond and nothing is in flight.
UNKNOWN_SHARE = 0.02
# So much less than what was owed when the source was last seen may a lower bound be.
VAGUE_SHARE = 0.1
# So old may be what a time lag was computed from.
TIME_SLACK_MS = 8_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """An amount of records that the product says is owed, of a flow, a topic or a partition.

    `as_of`: the moment that it speaks of (epoch ms). `time_lag_ms` is None where it says none.
    """

    statement: str
    records: int | None
    certainty: Certainty
    as_of: int
    topic: str | None = None
    partition: int | None = None
    time_lag_ms: int | None = None
    # Whether the time lag is said to be a lower bound.
    is_lag_least: bool = False
    text: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement that is not true, with what is."""

    kind: Kind
    statement: str
    said: str
    true: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.statement}: said {self.said}; true: {self.true}"


def judge_amount(claim: Claim, truth: Bounds) -> Finding | None:
    """Too good when it states less than is owed; untrue when it states more as a lower bound."""
    if claim.records is None or claim.certainty == "unknown":
        return None
    if claim.certainty in ("counted", "at_most") and claim.records < truth.least:
        return _finding("too_good", claim, f"at least {truth.least:,}")
    if claim.certainty in ("counted", "at_least") and claim.records > _most(truth):
        return _finding("untrue", claim, f"at most {truth.most:,}")
    return None


def judge_interval(claim: Claim, truth: Bounds) -> Finding | None:
    """A lower bound is close to what was owed at the moment that it speaks of."""
    if claim.certainty != "at_least" or claim.records is None:
        return None
    if claim.records >= (1 - VAGUE_SHARE) * truth.least:
        return None
    return _finding("vague", claim, f"{truth.least:,} were owed at that moment")


def _most(truth: Bounds) -> float:
    return float("inf") if truth.most is None else truth.most


def judge_time_lag(claim: Claim, oldest: int | None) -> Finding | None:
    """`oldest`: since when the oldest record that is surely owed was there."""
    if claim.time_lag_ms is None or oldest is None or claim.is_lag_least:
        return None
    age = claim.as_of - oldest
    if claim.time_lag_ms >= age - TIME_SLACK_MS:
        return None
    said = f"the oldest record owed is {claim.time_lag_ms:,} ms old as of {claim.as_of}"
    return Finding(
        kind="too_good",
        statement=f"time lag, {claim.statement}",
        said=said,
        true=f"{age:,} ms",
    )


def judge_unknown(claims: Sequence[Claim], excused: Iterable[str]) -> Finding | None:
    """More than a small share unknown, though nothing explains it. `excused` are topics."""
    without = set(excused)
    known = [claim for claim in claims if claim.topic not in without]
    unknown = [claim for claim in known if claim.certainty == "unknown"]
    if not unknown or len(unknown) <= UNKNOWN_SHARE * len(known):
        return None
    named = ", ".join(claim.statement for claim in unknown[:5])
    return Finding(
        kind="unknown_without_cause",
        statement=named,
        said=f"{len(unknown)} of {len(known)} statements are unknown",
        true="all clusters answer and nothing is in flight",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume:
    """Where a group is said to resume in one partition, and what it had consumed.

    `copies` are offset and value of the remote partition, `consumed` and `held` values of the
    source: those below the group's offset, and all of its present generation.
    """

    statement: str
    downstream: int
    re_reads: int | None
    skipped: int | None
    copies: Sequence[tuple[int, str]]
    consumed: frozenset[str]
    held: frozenset[str]


def judge_resume(said: Resume) -> Finding | None:
    """A group never skips a record that it has not consumed, and re-reads no more than is said."""
    skipped = [
        value
        for offset, value in said.copies
        if offset < said.downstream and value in said.held and value not in said.consumed
    ]
    if len(skipped) > (said.skipped or 0):
        return Finding(
            kind="wrong_resume",
            statement=said.statement,
            said=f"resumes at {said.downstream:,}, skips {said.skipped or 0:,}",
            true=f"skips {len(skipped):,} records that it never consumed ({skipped[0]} …)",
        )
    again = sum(
        offset >= said.downstream and value in said.consumed for offset, value in said.copies
    )
    if said.re_reads is not None and said.re_reads < again:
        return Finding(
            kind="too_good",
            statement=said.statement,
            said=f"{said.re_reads:,} records are read again from {said.downstream:,} on",
            true=f"{again:,}",
        )
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Orphans:
    """What a failback says that only the old primary has in one partition, and an own count."""

    place: str
    records: int
    certainty: Certainty
    counted: int


def judge_orphans(said: Orphans) -> Finding | None:
    """None is forgotten, and a counted number is exact."""
    words = f"{said.certainty} {said.records:,}"
    where, true = f"orphans of {said.place}", f"{said.counted:,}"
    if said.certainty in ("counted", "at_most") and said.records < said.counted:
        return Finding(kind="too_good", statement=where, said=words, true=true)
    if said.certainty in ("counted", "at_least") and said.records > said.counted:
        return Finding(kind="untrue", statement=where, said=words, true=true)
    return None


def judge_copies(
    where: str, values: Iterable[str], there: Iterable[str], times: int
) -> Finding | None:
    """Each of the values is there exactly `times` times."""
    found = Counter(there)
    wrong = sorted({value for value in values if found[value] != times})
    if not wrong:
        return None
    return Finding(
        kind="untrue",
        statement=f"copies of {where}",
        said=f"{times} each",
        true=f"{len(wrong)} records otherwise: {wrong[0]} is there {found[wrong[0]]} times",
    )


def _finding(kind: Kind, claim: Claim, true: str) -> Finding:
    said = f"{claim.certainty} {claim.records:,} as of {claim.as_of} {claim.text}".strip()
    return Finding(kind=kind, statement=claim.statement, said=said, true=true)
