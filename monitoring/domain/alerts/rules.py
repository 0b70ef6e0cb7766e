"""What rules ask of which facts, and what an alert does next. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from mirrors.domain.account.totals import Total

Kind = Literal[
    "time_lag",
    "offset_lag",
    "stands",
    "flow_failed",
    "flow_degraded",
    "gap",
    "stale",
    "runner_down",
    "forecast",
    "heartbeat",
    "checkpoint",
    "open_transaction",
    "foreign_writes",
    "not_replicated",
]
# What each kind asks, and the unit of its threshold; those without need none.
KINDS: dict[Kind, tuple[str, str]] = {
    "time_lag": (
        "The oldest record not yet copied is older than this number of seconds (RPO)",
        "s",
    ),
    "offset_lag": ("More records than this are not yet copied", "records"),
    "stands": ("The source grows and nothing was copied for this number of seconds", "s"),
    "flow_failed": ("The flow failed and is not tried again by itself", ""),
    "flow_degraded": ("The flow is degraded, or fails again and again", ""),
    "gap": ("Records are lost, changed or refused, and a decision is waited for", ""),
    "stale": ("The flow should run and sent no figures for this number of seconds", "s"),
    "runner_down": ("A runner that flows need is not ready", ""),
    "forecast": (
        "Retention deletes records before they are copied, within this number of seconds",
        "s",
    ),
    "heartbeat": ("The newest heartbeat on the target is older than this number of seconds", "s"),
    "checkpoint": ("Checkpoints of consumer groups are older than this number of seconds", "s"),
    "open_transaction": ("An open transaction holds back records for this number of seconds", "s"),
    "foreign_writes": ("Another producer writes into the flow's remote topics", ""),
    "not_replicated": ("A selected topic is not replicated, and only a person can change that", ""),
}
# Beyond any lag, and far from what JSON cannot say.
LARGEST = 1e15
LONGEST_S = 86_400
# What is foretold counts below its threshold, everything else above.
COUNTS_BELOW: frozenset[Kind] = frozenset({"forecast"})
# Firing, a figure must fall below this share of its threshold before all is well again.
CLEARS_BELOW = 0.8

Step = Literal["nothing", "begin", "fire", "resolve", "drop"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """What a rule asks. `for_s`: so long it must hold before it calls anybody."""

    kind: Kind
    threshold: float | None = None
    clear_below: float | None = None
    for_s: int = 0

    @property
    def clears_at(self) -> float:
        if self.kind in COUNTS_BELOW:
            return (self.threshold or 0) / CLEARS_BELOW
        if self.clear_below is not None:
            return self.clear_below
        return (self.threshold or 0) * CLEARS_BELOW


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutlookFacts:
    """What a sweep of the source that is not old says of a flow."""

    as_of: datetime
    offset_lag: int | None
    moved_at: datetime | None
    lag_when_moved: int | None
    loses_at: datetime | None
    loss: str
    held_since: datetime | None
    held_records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFacts:
    name: str
    desired: str
    state: str
    reason: str = ""
    # What it owes, None while it never said.
    account: Total | None = None
    # The topics that only a person can bring to be replicated, in a sentence; empty for none.
    blocked: str = ""
    as_of: datetime | None = None
    since: datetime | None = None
    # It copies in windows: when this run began, and how long what waited for it may keep it behind.
    began_at: datetime | None = None
    catches_up_until: datetime | None = None
    moved_at: datetime | None = None
    lag_when_moved: int | None = None
    gaps: int = 0
    failures: int = 0
    outlook: OutlookFacts | None = None
    heartbeat_at: datetime | None = None
    heartbeats_on: bool = True
    checkpoint_at: datetime | None = None
    checkpoints_on: bool = True
    # Records of another producer that are still coming, and the sentence that says where.
    foreign_records: int = 0
    foreign_writes: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerFacts:
    name: str
    state: str
    needed: bool
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a condition found. `holds` is None when nobody can know; `over` only when all is well.

    Between threshold and clearing neither is true: what fires goes on, what does not stays quiet.
    """

    holds: bool | None
    over: bool
    value: float | None
    sentence: str


def decide(
    state: Literal["pending", "firing"] | None,
    since: datetime | None,
    reading: Reading,
    condition: Condition,
    now: datetime,
) -> Step:
    """What the alert of one rule and one subject does next; what is not known changes nothing."""
    if state == "firing":
        return "resolve" if reading.over else "nothing"
    if reading.holds is None:
        return "nothing"
    if not reading.holds:
        return "drop" if state == "pending" else "nothing"
    if state is None:
        return "begin" if condition.for_s else "fire"
    held = since is not None and now - since >= timedelta(seconds=condition.for_s)
    return "fire" if held else "nothing"


class OfKind(Protocol):
    """A rule as far as choosing needs it: of one flow, or of every flow."""

    @property
    def kind(self) -> str: ...

    @property
    def flow_id(self) -> int | None: ...


Rule = TypeVar("Rule", bound=OfKind)


def rules_of(rules: Iterable[Rule], flow_id: int) -> list[Rule]:
    """A flow's own rules take the place of the general ones of their kind."""
    rules = list(rules)
    own = [rule for rule in rules if rule.flow_id == flow_id]
    replaced = {rule.kind for rule in own}
    return own + [rule for rule in rules if rule.flow_id is None and rule.kind not in replaced]


def problems_of(
    kind: Kind, threshold: float | None, clear_below: float | None
) -> dict[str, list[str]]:
    """Why a rule cannot work, by field."""
    errors: dict[str, list[str]] = {}
    unit = KINDS[kind][1]
    if unit and threshold is None:
        errors["threshold"] = [f"This kind needs a threshold in {unit}."]
    if clear_below is None:
        return errors
    if kind in COUNTS_BELOW:
        errors["clear_below"] = ["What is foretold clears by itself at 125 % of its threshold."]
    elif threshold is not None and clear_below > threshold:
        errors["clear_below"] = ["It clears at or below the threshold, not above it."]
    return errors
