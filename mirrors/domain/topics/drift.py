"""Drift: manual changes on the target, and how long they are tolerated.

Invariants:
A. Only a deviation from what the flow last set is drift: a first check finds none.
B. A finding waits `drift.grace.seconds` for a decision; then the sync task reverts it, as MM2 does.
C. Accepted holds for the value, ignored for the setting; neither is reverted until it expires.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Literal, NamedTuple, get_args

Kind = Literal[
    "topic config",
    "partitions",
    "deleted topic",
    "acl",
    "schema level",
    "deleted schema",
    "foreign schema",
]
Choice = Literal["accept", "fix", "ignore"]
KINDS: tuple[str, ...] = get_args(Kind)
CHOICES: tuple[str, ...] = get_args(Choice)
# The kind, the remote topic (or what a rule is of), and the setting (or the rule).
DriftKey = tuple[str, str, str]
LONGEST_MS = 366 * 24 * 3600 * 1000
_NEVER_FIXED = {
    "partitions": "Kafka cannot remove partitions. Accept it, or ignore it for a time; the extra "
    "partitions stay empty.",
    "foreign schema": "Understudy deletes no schema. Accept it, or delete it in the registry.",
}
# Made again only when somebody says so: what is copied into it is another decision.
_BY_PEOPLE = {*_NEVER_FIXED, "deleted topic", "deleted schema"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deviation:
    """One deviation. `expected`: what the flow last set. `wanted`: what it would set now."""

    kind: Kind
    name: str
    key: str = ""
    expected: str | None
    found: str | None
    wanted: str | None

    @property
    def drift_key(self) -> DriftKey:
        return self.kind, self.name, self.key

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        if self.kind == "deleted topic":
            return f"{self.name} was deleted on the target."
        if self.kind == "partitions":
            return (
                f"{self.name} was changed manually to {self.found} partitions; it had "
                f"{self.expected}."
            )
        if self.kind == "deleted schema":
            return f"{self.key} of subject {self.name} was deleted in the target's registry."
        if self.kind == "foreign schema":
            return (
                f"{self.key} of subject {self.name} was registered in the target's registry by "
                "somebody else."
            )
        if self.kind == "schema level":
            return (
                f"The compatibility level of subject {self.name} was changed manually to "
                f"{self.found}; it was {self.expected}."
            )
        if self.kind == "acl":
            return f"The ACL {self.key} of {self.name} was deleted manually."
        found, expected = (
            "the default" if value is None else value for value in (self.found, self.expected)
        )
        return f"{self.key} of {self.name} was changed manually to {found}; it was {expected}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline:
    """A remote topic as the flow last left it; a setting that is missing had its default."""

    topic_id: str = ""
    partitions: int
    configs: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What is known of a deviation since an earlier check; times are epoch ms."""

    state: str
    found: str | None
    opened_at: int
    expires_at: int | None = None
    who: str = ""
    why: str = ""


class DriftDecision(NamedTuple):
    """Whether the deviation is left as it is, and why; `is_new`: it has no decision yet."""

    leave: bool
    reason: str
    is_new: bool = False
    decided: bool = False


def decide_drift(
    deviation: Deviation, known: Finding | None, *, now: int, grace_s: int
) -> DriftDecision:
    """Return what the sync tasks do about the deviation now."""
    if known is None:
        return _undecided(deviation, now, now, grace_s, is_new=True)
    expired = known.expires_at is not None and known.expires_at <= now
    if known.state == "fixing":
        return DriftDecision(deviation.kind in _NEVER_FIXED, deviation.sentence)
    if known.state == "ignored" and not expired:
        return _decided(deviation, known, "ignored")
    if known.state == "accepted" and not expired and known.found == deviation.found:
        return _decided(deviation, known, "accepted")
    if expired:
        return DriftDecision(deviation.kind in _BY_PEOPLE, deviation.sentence)
    is_new = known.found != deviation.found
    return _undecided(deviation, now if is_new else known.opened_at, now, grace_s, is_new=is_new)


def refusal(kind: str, choice: str, *, why: str, expires_at: int | None, now: int) -> str | None:
    """Return why a decision is invalid, as a sentence; None if it is valid."""
    if not why.strip():
        return "Give a reason: it is kept in the history."
    if choice == "fix" and kind in _NEVER_FIXED:
        return _NEVER_FIXED[kind]
    if choice == "fix" and expires_at is not None:
        return "A fix does not expire. Leave the expiry empty."
    if choice == "ignore" and expires_at is None:
        return "Enter when ignoring it ends; to leave this value permanently, accept it."
    if expires_at is not None and not now < expires_at <= now + LONGEST_MS:
        return "The expiry must be in the future, at most one year ahead."
    return None


def time_of(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _undecided(
    deviation: Deviation, opened_at: int, now: int, grace_s: int, *, is_new: bool
) -> DriftDecision:
    if deviation.kind in _BY_PEOPLE:
        return DriftDecision(True, f"{deviation.sentence} Decide on the Drift tab.", is_new)
    until = opened_at + grace_s * 1000
    if until <= now:
        return DriftDecision(False, deviation.sentence, is_new)
    reason = (
        f"{deviation.sentence} It is reverted at {time_of(until)} unless somebody accepts or "
        "ignores it on the Drift tab."
    )
    return DriftDecision(True, reason, is_new)


def _decided(deviation: Deviation, known: Finding, word: str) -> DriftDecision:
    until = f" until {time_of(known.expires_at)}" if known.expires_at is not None else ""
    reason = f"{deviation.sentence} It is {word}{until} by {known.who}: {known.why}"
    return DriftDecision(True, reason, decided=True)
