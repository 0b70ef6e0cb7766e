"""Data loss if a source fails now: one sentence over all sources.

The greatest known loss comes first; an unknown one never replaces a known one. A stale figure is a
lower bound and says its age.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from mirrors.domain.account.sentences import amount, offsets_when_seen
from mirrors.domain.account.totals import NOTHING, OLD_AFTER_MS, Total, is_old
from mirrors.domain.formatting import duration, plural, short_name

NOT_RUNNING = {"draft", "paused", "stopped", "failed_over"}
# Nothing to lose: a draft was never started, and clients left the source of a failed-over flow.
_NOT_PROTECTED = {"draft", "failed_over"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Number of sources named in each of the three groups: known, unknown and no loss.
NAMED = 3
# An older amount says its age, because its source may have failed since.
AGE_SAID_AFTER_MS = 5_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowSummary:
    """A flow at its last report. `account` is what it owes, None before the first report."""

    name: str
    source: str
    target: str = ""
    state: str
    reason: str = ""
    account: Total | None = None
    worst_topic: str = ""
    as_of: datetime | None = None
    source_unreachable: bool = False
    target_unreachable: bool = False
    # Its most severe unsilenced alert: severity and sentence, without the sentence for lag,
    # because `account` is fresher.
    severity: str = ""
    alert: str = ""

    @property
    def total(self) -> Total:
        return NOTHING if self.account is None else self.account

    @property
    def time_lag_ms(self) -> int:
        return self.total.time_lag_ms or 0

    def observed_at(self) -> datetime | None:
        """When the oldest part of this account was read; None if that is unknown.

        Only an account that owes nothing by rule is as old as its report.
        """
        if self.account is None or self.account.is_empty or not self.account.partitions:
            return self.as_of
        if self.account.observed_at is None:
            return None
        return _EPOCH + timedelta(milliseconds=self.account.observed_at)

    # `account` holds a mapping; the name is unique.
    def __hash__(self) -> int:
        return hash(self.name)


def worst_by_source(flows: Iterable[FlowSummary], now: datetime) -> list[FlowSummary]:
    """For each source its flow with the greatest loss, the greatest known loss first."""
    worst: dict[str, FlowSummary] = {}
    for flow in flows:
        if flow.state in _NOT_PROTECTED:
            continue
        rival = worst.get(flow.source)
        if rival is None or _rank(flow, now) > _rank(rival, now):
            worst[flow.source] = flow
    return sorted(worst.values(), key=lambda flow: (*_rank(flow, now), flow.source), reverse=True)


def losses(flows: Iterable[FlowSummary], now: datetime) -> str:
    """`Data loss if a source fails now: east at most 4,112 records; none for west (2 s ago).`"""
    ranked = worst_by_source(flows, now)
    known = [flow for flow in ranked if flow.total.records]
    safe = [flow for flow in ranked if _is_safe(flow, now)]
    unknown = [flow for flow in ranked if flow not in known and flow not in safe]
    parts = [_known(flow, now) for flow in known[:NAMED]]
    if len(known) > NAMED:
        parts.append(f"{plural(len(known) - NAMED, 'more source')} with less")
    if unknown:
        parts.append(f"unknown for {_named(unknown, lambda flow: _why_unknown(flow, now))}")
    if safe:
        age = max((now - seen for flow in safe if (seen := flow.observed_at())), default=None)
        seconds = 1 if age is None else max(1, math.ceil(age.total_seconds()))
        parts.append(f"none for {_named(safe)} (checked {duration(seconds * 1000)} ago)")
    return f"Data loss if a source fails now: {'; '.join(parts)}." if parts else ""


def _rank(flow: FlowSummary, now: datetime) -> tuple[int, bool, int, timedelta]:
    age = timedelta.max if (seen := flow.observed_at()) is None else now - seen
    return flow.total.records, not _is_safe(flow, now), flow.time_lag_ms, age


def _is_safe(flow: FlowSummary, now: datetime) -> bool:
    """Nothing is owed, and every partition was counted on a source that was just read."""
    if flow.account is None or flow.source_unreachable:
        return False
    stated = flow.account.as_of(_ms(now))
    return stated.certainty == "counted" and not stated.records


def _known(flow: FlowSummary, now: datetime) -> str:
    """`east at most 4,112 records (oldest 38 s, most in payments)`."""
    limit = -1 if flow.source_unreachable else OLD_AFTER_MS
    stated = flow.total.as_of(_ms(now), limit)
    notes = ["unreachable"] if flow.source_unreachable else []
    seen = flow.observed_at()
    when = "seen at an unknown time" if seen is None else f"seen {how_long(seen, now)} ago"
    if flow.total.records > stated.records:
        notes.append(offsets_when_seen(flow.total, _ms(now)))
    elif is_old(flow.total.observed_at, _ms(now), min(limit, AGE_SAID_AFTER_MS)):
        notes.append(when)
    if stated.time_lag_ms:
        bound = "at least " if stated.unknown_lags else ""
        notes.append(f"oldest {bound}{duration(stated.time_lag_ms)}")
    if flow.worst_topic:
        notes.append(f"most in {short_name(flow.worst_topic)}")
    if stated.unknown:
        notes.append(f"unknown for {plural(stated.unknown, 'partition')}")
    what = amount(stated.records, stated.certainty)
    return f"{flow.source} {what} ({', '.join(notes)})" if notes else f"{flow.source} {what}"


def _why_unknown(flow: FlowSummary, now: datetime) -> str:
    seen = flow.observed_at()
    if flow.account is None or seen is None:
        return "no figures yet"
    if flow.account.unknown:
        return f"unknown for {plural(flow.account.unknown, 'partition')}"
    last = f"in sync {how_long(seen, now)} ago"
    return f"unreachable, {last}" if flow.source_unreachable else last


def _named(flows: Sequence[FlowSummary], note: object = None) -> str:
    """`south (no figures yet), north and 2 more`."""
    names = [
        f"{flow.source} ({note(flow)})" if callable(note) else flow.source
        for flow in sorted(flows, key=lambda flow: flow.source)[:NAMED]
    ]
    more = len(flows) - NAMED
    if more > 0:
        names.append(f"{more} more")
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def how_long(then: datetime, now: datetime) -> str:
    return duration((now - then).total_seconds() * 1000)


def _ms(now: datetime) -> int:
    return round((now - _EPOCH).total_seconds() * 1000)
