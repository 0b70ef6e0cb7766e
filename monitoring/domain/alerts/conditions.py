"""Evaluates the condition of a rule on the facts of a flow or a runner; result with a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta

from mirrors.domain.account.sentences import owed, owed_as_of
from mirrors.domain.account.totals import Total, is_old
from mirrors.domain.formatting import duration, plural
from monitoring.domain.alerts.rules import (
    COUNTS_BELOW,
    Condition,
    ConditionResult,
    FlowFacts,
    Kind,
    RunnerFacts,
)
from monitoring.domain.history import is_fresh

_LATELY = timedelta(minutes=15)
_INACTIVE = {"draft", "stopped", "failed_over"}


def read_flow(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.desired == "stopped" or flow.state in _INACTIVE:
        return ConditionResult(False, True, None, "is stopped")
    read = _READ.get(condition.kind)
    if read is None:
        return ConditionResult(None, False, None, "is not a runner")
    return read(condition, flow, now)


def read_runner(condition: Condition, runner: RunnerFacts, now: datetime) -> ConditionResult:
    if condition.kind == "runner_moved":
        moved = runner.moved_at is not None and now - runner.moved_at < _LATELY
        return _fact(moved, f"moved: {runner.move_reason.rstrip('.')}" if moved else "stays")
    reason = runner.reason.rstrip(".")
    return _fact(
        runner.needed and runner.state not in {"ready", "starting"},
        f"is {runner.state}{': ' + reason if reason else ''}",
    )


def _time_lag(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    """The age of the oldest known record. If a part is unknown or old, it never clears."""
    if flow.account is None or not is_fresh(flow.as_of, now):
        return _level(condition, None, "")
    lag = flow.account.time_lag_ms
    if lag is None:
        return _level(condition, None, "")
    if not lag and _bounds_all(flow.account, now):
        return _level(condition, 0, "is 0 s behind")
    words = f"is {duration(lag)} behind, {_owed(flow.account, now)}"
    if _is_planned_backlog(flow, now):
        return _planned_backlog(words, flow, now)
    return _bounded(_level(condition, lag / 1000, words), flow.account, now)


def _offset_lag(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.account is None or not is_fresh(flow.as_of, now):
        return _level(condition, None, "")
    words = f"is {_owed(flow.account, now)} behind"
    if flow.account.records and _is_planned_backlog(flow, now):
        return _planned_backlog(words, flow, now)
    return _bounded(_level(condition, flow.account.records, words), flow.account, now)


def _bounded(reading: ConditionResult, account: Total, now: datetime) -> ConditionResult:
    """A lower bound can prove that a figure is too high, never that it is low enough."""
    if _bounds_all(account, now) or reading.holds:
        return reading
    return dataclasses.replace(reading, holds=None, clears=False)


def _bounds_all(account: Total, now: datetime) -> bool:
    """Whether the account bounds what every partition owes now: each is known, by a recent read."""
    return account.as_of(_ms(now)).certainty in ("counted", "at_most")


def _owed(account: Total, now: datetime) -> str:
    """The amount; an old one says its age."""
    if account.is_empty or not is_old(account.observed_at, _ms(now)):
        return owed(account)
    return owed_as_of(account, _ms(now))


def _ms(now: datetime) -> int:
    return round(now.timestamp() * 1000)


def _not_replicated(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    return _fact(bool(flow.blocked), f"does not replicate {flow.blocked}")


def _is_planned_backlog(flow: FlowFacts, now: datetime) -> bool:
    """Whether the oldest record not yet copied is older than this run of the schedule.

    Such a backlog is planned during the first half of the window. After that it counts like any
    other lag, because no other rule reports a window that is too short.
    """
    if flow.began_at is None or flow.catches_up_until is None or now >= flow.catches_up_until:
        return False
    if flow.as_of is None or flow.account is None or flow.account.time_lag_ms is None:
        return False
    return flow.as_of - timedelta(milliseconds=flow.account.time_lag_ms) < flow.began_at


def _planned_backlog(words: str, flow: FlowFacts, now: datetime) -> ConditionResult:
    began = now if flow.began_at is None else flow.began_at
    since = duration(round((now - began).total_seconds()) * 1000)
    return ConditionResult(
        False, True, None, f"{words}: a backlog of its window, which opened {since} ago"
    )


def _stalled(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    """No record is copied while the source grows. A paused flow is not stalled.

    Without reports of a runner, the figures of the last sweep of the source count.
    """
    if flow.desired == "paused":
        return ConditionResult(False, True, None, "is paused")
    if flow.moved_at is not None and is_fresh(flow.as_of, now):
        moved_at, before = flow.moved_at, flow.lag_when_moved
        lag = None if flow.account is None else flow.account.records
    elif flow.outlook is not None and flow.outlook.moved_at is not None:
        seen = flow.outlook
        moved_at, lag, before = flow.outlook.moved_at, seen.offset_lag, seen.lag_when_moved
    else:
        return _level(condition, None, "")
    grew = (lag or 0) - (before or 0)
    seconds = (now - moved_at).total_seconds() if grew > 0 else 0.0
    words = f"replicated nothing for {duration(seconds * 1000)} while its source grew by {grew:,}"
    if grew <= 0:
        words = "copies at the rate of its source"
    return _level(condition, seconds, words)


def _stale(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.desired != "running" or flow.state == "failed":
        return ConditionResult(False, True, None, f"is {flow.state}")
    return _age(condition, flow.as_of or flow.since, now, "sent no metrics for {}")


def _gap(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    verb = "waits" if flow.gaps == 1 else "wait"
    return _fact(flow.gaps > 0, f"has {plural(flow.gaps, 'gap')} that {verb} for a decision")


def _dead_letters(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    wrote = flow.dead_letter_at is not None and now - flow.dead_letter_at < _LATELY
    written = f"has {plural(flow.dead_letters, 'record')} in its dead-letter topic"
    return _fact(wrote, f"{written}, the last within 15 minutes" if wrote else written)


def _schemas(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.desired != "running":
        return ConditionResult(False, True, None, "does not run, nor do its sync tasks")
    words = f"may lack schemas on its target: {flow.schemas.rstrip('.')}"
    return _fact(bool(flow.schemas), words if flow.schemas else "has its schemas on the target")


def _conflicts(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    said = flow.conflict_report.rstrip(".")
    return _fact(flow.conflicts > 0, f"has conflicting keys: {said}" if said else "has no report")


def _failed(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    return _state(flow, {"failed"})


def _degraded(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.state == "starting" and flow.failures:
        # A restart between two failures is no recovery.
        return _fact(True, f"restarts after {plural(flow.failures, 'failure')} in a row")
    return _state(flow, {"degraded", "backing_off"})


def _forecast(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    """Applies to paused flows too: retention deletes their records as well."""
    seen = flow.outlook
    if seen is None:
        return _level(condition, None, "")
    if seen.loses_at is None:
        return ConditionResult(False, True, None, "is not expected to lose records to retention")
    seconds = max(0.0, (seen.loses_at - now).total_seconds())
    return _level(condition, seconds, seen.loss)


def _heartbeat(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.desired != "running" or not flow.heartbeats_on:
        return ConditionResult(False, True, None, "has heartbeats turned off")
    words = "last received a heartbeat on its target {} ago"
    return _age(condition, flow.heartbeat_at, now, words)


def _checkpoint(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.desired != "running" or not flow.checkpoints_on:
        return ConditionResult(False, True, None, "has checkpoints turned off")
    words = "last wrote the checkpoints of its groups {} ago"
    return _age(condition, flow.checkpoint_at or flow.since, now, words)


def _open_transaction(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    seen = flow.outlook
    if seen is None:
        return _level(condition, None, "")
    if seen.held_since is None:
        return ConditionResult(False, True, None, "has no open transaction that holds records back")
    words = "cannot replicate {}: a transaction on its source has been open for {}"
    words = words.format(plural(seen.held_records, "record"), "{}")
    return _age(condition, seen.held_since, now, words)


def _foreign_writes(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    words = flow.foreign_writes.rstrip(".") or "has remote topics that no other producer writes"
    if flow.foreign_writes:
        words = f"has a foreign producer: {words}"
    return ConditionResult(
        bool(flow.foreign_writes), not flow.foreign_writes, flow.foreign_records, words
    )


def _unverified(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    """The partition that counts is the one that was verified the longest ago, or never."""
    seen = flow.verification
    if flow.desired != "running":
        return ConditionResult(False, True, None, f"is {flow.desired}")
    if seen is None or seen.why_not:
        words = "is not compared by schedule" if seen is None else seen.why_not
        return ConditionResult(False, True, None, words)
    if seen.since is None:
        return ConditionResult(None, False, None, "has no partition to verify yet")
    words = "last verified all of its partitions {} ago"
    if seen.never:
        words = (
            f"has not verified {seen.never:,} of {plural(seen.partitions, 'partition')} for {{}}"
        )
    return _age(condition, seen.since, now, words)


def _budget(condition: Condition, flow: FlowFacts, now: datetime) -> ConditionResult:
    if flow.budget_share is None:
        return ConditionResult(False, True, None, flow.cost)
    return _level(condition, flow.budget_share, flow.cost)


def _age(
    condition: Condition, since: datetime | None, now: datetime, words: str
) -> ConditionResult:
    if since is None:
        return _level(condition, None, "")
    seconds = (now - since).total_seconds()
    return _level(condition, seconds, words.format(duration(round(seconds) * 1000)))


def _level(condition: Condition, value: float | None, words: str) -> ConditionResult:
    if value is None:
        return ConditionResult(None, False, None, "sends no fresh metrics")
    threshold = condition.threshold or 0
    if condition.kind in COUNTS_BELOW:
        return ConditionResult(value < threshold, value >= condition.clears_at, value, words)
    return ConditionResult(
        value > threshold, value <= min(condition.clears_at, threshold), value, words
    )


def _state(flow: FlowFacts, wrong: set[str]) -> ConditionResult:
    word, reason = f"is {flow.state.replace('_', ' ')}", flow.reason.rstrip(".")
    return _fact(flow.state in wrong, f"{word}: {reason}" if reason else word)


def _fact(wrong: bool, words: str) -> ConditionResult:
    return ConditionResult(wrong, not wrong, None, words)


_READ: dict[Kind, Callable[[Condition, FlowFacts, datetime], ConditionResult]] = {
    "time_lag": _time_lag,
    "offset_lag": _offset_lag,
    "stands": _stalled,
    "flow_failed": _failed,
    "flow_degraded": _degraded,
    "gap": _gap,
    "dead_letters": _dead_letters,
    "conflicts": _conflicts,
    "stale": _stale,
    "forecast": _forecast,
    "heartbeat": _heartbeat,
    "checkpoint": _checkpoint,
    "open_transaction": _open_transaction,
    "foreign_writes": _foreign_writes,
    "not_replicated": _not_replicated,
    "unverified": _unverified,
    "budget": _budget,
    "schemas": _schemas,
}
