"""Kinds of alert rules, the facts they read, and the transitions of an alert."""

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
    "dead_letters",
    "conflicts",
    "stale",
    "runner_down",
    "runner_moved",
    "forecast",
    "heartbeat",
    "checkpoint",
    "open_transaction",
    "foreign_writes",
    "not_replicated",
    "unverified",
    "budget",
    "schemas",
]
# The condition of each kind, and the unit of its threshold; empty for kinds without one.
KINDS: dict[Kind, tuple[str, str]] = {
    "time_lag": (
        "RPO: the oldest record not yet replicated is older than this number of seconds",
        "s",
    ),
    "offset_lag": ("More records than this are not yet replicated", "records"),
    "stands": ("New records on the source, and none replicated for this number of seconds", "s"),
    "flow_failed": ("The flow failed and is not restarted automatically", ""),
    "flow_degraded": ("The flow is degraded, or fails repeatedly", ""),
    "gap": ("Records are lost, changed or rejected, and need a decision", ""),
    "dead_letters": ("A rule failed for records within the last 15 minutes: dead letters", ""),
    "conflicts": ("The last report found keys that differ after writes on both sides", ""),
    "stale": ("No metrics from a running flow for this number of seconds", "s"),
    "runner_down": ("A runner that flows need is not ready", ""),
    "runner_moved": ("Another host took a runner over within the last 15 minutes", ""),
    "forecast": (
        "Retention deletes records before they are replicated, within this number of seconds",
        "s",
    ),
    "heartbeat": ("The newest heartbeat on the target is older than this number of seconds", "s"),
    "checkpoint": ("Checkpoints of consumer groups are older than this number of seconds", "s"),
    "open_transaction": ("An open transaction holds back records for this number of seconds", "s"),
    "foreign_writes": ("Another producer writes into the flow's remote topics", ""),
    "not_replicated": ("A selected topic is not replicated, and only a person can change that", ""),
    "unverified": (
        "A comparison by schedule has not verified records for more than this number of seconds",
        "s",
    ),
    "schemas": ("Schemas are missing on the target, or that is unknown", ""),
    "budget": ("The forecast cost of the month is above this percentage of its budget", "%"),
}
# Rules about runners; all others are about flows.
OF_RUNNERS: frozenset[Kind] = frozenset({"runner_down", "runner_moved"})
# Greater than any lag, and exact in JSON.
LARGEST = 1e15
LONGEST_S = 86_400
# A forecast fires below its threshold, every other figure above.
COUNTS_BELOW: frozenset[Kind] = frozenset({"forecast"})
# Hysteresis: a firing alert clears at this share of its threshold.
CLEARS_BELOW = 0.8

Step = Literal["nothing", "begin", "fire", "resolve", "drop"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """The condition of a rule. It must hold for `for_s` seconds before the alert fires."""

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
class ForecastFacts:
    """A flow's forecast from a recent sweep of its source."""

    as_of: datetime
    offset_lag: int | None
    moved_at: datetime | None
    lag_when_moved: int | None
    loses_at: datetime | None
    loss: str
    held_since: datetime | None
    held_records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationFacts:
    """Up to when comparisons verified the records of a flow.

    - `partitions`: those that the flow copies; `never`: those of them that none has verified.
    - `since`: the oldest time up to which a partition is verified; of one that never was, when it
      was first seen. None without a partition.
    - `why_not`: why the schedule verifies nothing; empty if it does.
    """

    partitions: int
    never: int
    since: datetime | None
    why_not: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFacts:
    name: str
    desired: str
    state: str
    reason: str = ""
    # None before the first report.
    account: Total | None = None
    # A sentence that names the topics that only a person can unblock; empty for none.
    blocked: str = ""
    as_of: datetime | None = None
    since: datetime | None = None
    # For a flow with windows: when this run began, and until when its backlog is planned.
    began_at: datetime | None = None
    catches_up_until: datetime | None = None
    moved_at: datetime | None = None
    lag_when_moved: int | None = None
    gaps: int = 0
    # Records in the dead-letter topic, and when the last ones were reported.
    dead_letters: int = 0
    dead_letter_at: datetime | None = None
    # The last conflict report: keys with different values on both sides, and its sentence.
    conflicts: int = 0
    conflict_report: str = ""
    failures: int = 0
    outlook: ForecastFacts | None = None
    heartbeat_at: datetime | None = None
    heartbeats_on: bool = True
    checkpoint_at: datetime | None = None
    checkpoints_on: bool = True
    # Why consumers on the target may lack a schema; empty if none does.
    schemas: str = ""
    # Records that foreign producers still write, and a sentence that says where.
    foreign_records: int = 0
    foreign_writes: str = ""
    verification: VerificationFacts | None = None
    # The forecast of the month in percent of its budget; None without one. `cost`: as a sentence.
    budget_share: float | None = None
    cost: str = "has no budget"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerFacts:
    name: str
    state: str
    needed: bool
    reason: str = ""
    # The last time another host took it over, and why.
    moved_at: datetime | None = None
    move_reason: str = ""


@dataclasses.dataclass(frozen=True)
class ConditionResult:
    """The result of a condition. `holds` is None if it is unknown.

    Between the threshold and the clearing value neither `holds` nor `clears` is true: a firing
    alert stays firing, and none opens.
    """

    holds: bool | None
    clears: bool
    value: float | None
    sentence: str


def decide(
    state: Literal["pending", "firing"] | None,
    since: datetime | None,
    reading: ConditionResult,
    condition: Condition,
    now: datetime,
) -> Step:
    """The next transition of the alert of one rule and subject; unknown changes nothing."""
    if state == "firing":
        return "resolve" if reading.clears else "nothing"
    if reading.holds is None:
        return "nothing"
    if not reading.holds:
        return "drop" if state == "pending" else "nothing"
    if state is None:
        return "begin" if condition.for_s else "fire"
    held = since is not None and now - since >= timedelta(seconds=condition.for_s)
    return "fire" if held else "nothing"


class KindAndFlow(Protocol):
    """A rule for one flow, or for every flow if `flow_id` is None."""

    @property
    def kind(self) -> str: ...

    @property
    def flow_id(self) -> int | None: ...


Rule = TypeVar("Rule", bound=KindAndFlow)


def rules_of(rules: Iterable[Rule], flow_id: int) -> list[Rule]:
    """A flow's own rules replace the general ones of the same kind."""
    rules = list(rules)
    own = [rule for rule in rules if rule.flow_id == flow_id]
    replaced = {rule.kind for rule in own}
    return own + [rule for rule in rules if rule.flow_id is None and rule.kind not in replaced]


def problems_of(
    kind: Kind, threshold: float | None, clear_below: float | None, *, has_flow: bool = False
) -> dict[str, list[str]]:
    """Why a rule cannot work, by field."""
    errors: dict[str, list[str]] = {}
    if has_flow and kind in OF_RUNNERS:
        errors["flow"] = ["This condition is about runners: leave the flow out."]
    unit = KINDS[kind][1]
    if unit and threshold is None:
        errors["threshold"] = [f"This kind needs a threshold in {unit}."]
    if clear_below is None:
        return errors
    if kind in COUNTS_BELOW:
        errors["clear_below"] = ["A forecast clears at 125 % of its threshold; this cannot be set."]
    elif threshold is not None and clear_below > threshold:
        errors["clear_below"] = ["It must be at or below the threshold."]
    return errors
