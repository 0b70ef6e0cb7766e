"""When a condition calls a person: what holds, since when, and what an alert does next. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from mirrors.domain.figures import duration, plural
from monitoring.domain.lag import is_fresh

Kind = Literal[
    "time_lag",
    "offset_lag",
    "stands",
    "flow_failed",
    "flow_degraded",
    "gap",
    "stale",
    "runner_down",
]
# What each kind asks, and the unit of its threshold; those without need none.
KINDS: dict[Kind, tuple[str, str]] = {
    "time_lag": ("The oldest record not yet copied is older than so many seconds (RPO)", "s"),
    "offset_lag": ("More records than this are not yet copied", "records"),
    "stands": ("The source grows and nothing was copied for so many seconds", "s"),
    "flow_failed": ("The flow failed and is not tried again by itself", ""),
    "flow_degraded": ("The flow is degraded, or fails again and again", ""),
    "gap": ("Records of the source are lost or changed, and a decision is waited for", ""),
    "stale": ("The flow should run and sent no figures for so many seconds", "s"),
    "runner_down": ("A runner that flows need is not ready", ""),
}
_UNASKED = {"draft", "stopped", "failed_over"}
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
        if self.clear_below is not None:
            return self.clear_below
        return (self.threshold or 0) * CLEARS_BELOW


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFacts:
    name: str
    desired: str
    state: str
    reason: str = ""
    offset_lag: int | None = None
    time_lag_ms: int | None = None
    as_of: datetime | None = None
    since: datetime | None = None
    moved_at: datetime | None = None
    lag_when_moved: int | None = None
    gaps: int = 0
    failures: int = 0


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


def read_flow(condition: Condition, flow: FlowFacts, now: datetime) -> Reading:
    if flow.desired == "stopped" or flow.state in _UNASKED:
        return Reading(False, True, None, "is at rest")
    if condition.kind == "time_lag":
        return _time_lag(condition, flow, now)
    if condition.kind == "offset_lag":
        lag = flow.offset_lag if is_fresh(flow.as_of, now) else None
        words = "" if lag is None else f"is {plural(lag, 'record')} behind"
        return _level(condition, lag, words)
    if condition.kind == "stands":
        return _stands(condition, flow, now)
    if condition.kind == "stale":
        return _stale(condition, flow, now)
    if condition.kind == "gap":
        verb = "waits" if flow.gaps == 1 else "wait"
        return _fact(flow.gaps > 0, f"has {plural(flow.gaps, 'gap')} that {verb} for a decision")
    word = f"is {flow.state.replace('_', ' ')}"
    if condition.kind == "flow_degraded" and flow.state == "starting" and flow.failures:
        # Between two failures: it is not well again because it is tried again.
        return _fact(True, f"starts again after {plural(flow.failures, 'failure')} in a row")
    wrong = {"failed"} if condition.kind == "flow_failed" else {"degraded", "backing_off"}
    reason = flow.reason.rstrip(".")
    return _fact(flow.state in wrong, f"{word}: {reason}" if reason else word)


def read_runner(runner: RunnerFacts) -> Reading:
    reason = runner.reason.rstrip(".")
    return _fact(
        runner.needed and runner.state not in {"ready", "starting"},
        f"is {runner.state}{': ' + reason if reason else ''}",
    )


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


def _time_lag(condition: Condition, flow: FlowFacts, now: datetime) -> Reading:
    if flow.offset_lag == 0 and is_fresh(flow.as_of, now):
        return _level(condition, 0, "is 0 s behind")
    if flow.time_lag_ms is None or not is_fresh(flow.as_of, now):
        return _level(condition, None, "")
    lost = "" if flow.offset_lag is None else f", {plural(flow.offset_lag, 'record')}"
    words = f"is {duration(flow.time_lag_ms)} behind{lost}"
    return _level(condition, flow.time_lag_ms / 1000, words)


def _stands(condition: Condition, flow: FlowFacts, now: datetime) -> Reading:
    """Not copied although there is more and more to copy; a paused flow stands because asked to."""
    if flow.desired == "paused":
        return Reading(False, True, None, "is paused")
    if flow.moved_at is None or not is_fresh(flow.as_of, now):
        return _level(condition, None, "")
    grew = (flow.offset_lag or 0) - (flow.lag_when_moved or 0)
    seconds = (now - flow.moved_at).total_seconds() if grew > 0 else 0.0
    words = f"copied nothing for {duration(seconds * 1000)} while its source grew by {grew:,}"
    return _level(condition, seconds, words)


def _stale(condition: Condition, flow: FlowFacts, now: datetime) -> Reading:
    if flow.desired != "running" or flow.state == "failed":
        return Reading(False, True, None, f"is {flow.state}")
    heard = flow.as_of or flow.since
    if heard is None:
        return _level(condition, None, "")
    seconds = (now - heard).total_seconds()
    return _level(condition, seconds, f"sent no figures for {duration(round(seconds) * 1000)}")


def _level(condition: Condition, value: float | None, words: str) -> Reading:
    if value is None:
        return Reading(None, False, None, "sends no fresh figures")
    threshold = condition.threshold or 0
    return Reading(value > threshold, value <= min(condition.clears_at, threshold), value, words)


def _fact(wrong: bool, words: str) -> Reading:
    return Reading(wrong, not wrong, None, words)
