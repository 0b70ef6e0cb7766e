"""Data loss if a source fails now: sentences by source, and the worst over all of them.

The greatest known loss comes first; an unknown one never replaces a known one. A stale figure is a
lower bound and says its age.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from mirrors.domain.account.sentences import amount, offsets_when_seen
from mirrors.domain.account.totals import NOTHING, OLD_AFTER_MS, Total, is_old
from mirrors.domain.formatting import arrow, duration, plural, short_name

NOT_RUNNING = {"draft", "paused", "stopped", "failed_over"}
# Nothing to lose: a draft was never started, and clients left the source of a failed-over flow.
_NOT_PROTECTED = {"draft", "failed_over"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Number of sources named in each of the three groups: known, unknown and no loss.
NAMED = 3
# An older amount says its age, because its source may have failed since.
AGE_SAID_AFTER_MS = 5_000


class FlowSummary(NamedTuple):
    """A flow at its last report. `account` is what it owes, None before the first report.

    `key` is its primary key. There are thousands of them on one page.
    """

    name: str
    source: str
    state: str
    target: str = ""
    key: int = 0
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


def worst_by_source(flows: Iterable[FlowSummary], now: datetime) -> list[FlowSummary]:
    """For each source its flow with the greatest loss, the greatest known loss first."""
    worst: dict[str, tuple[_Rank, FlowSummary]] = {}
    for flow in flows:
        if flow.state in _NOT_PROTECTED:
            continue
        rival = worst.get(flow.source)
        if rival is not None and flow.total.records < rival[0][0]:
            # The first part of the rank decides; the others are computed for few of thousands.
            continue
        rank = _rank(flow, now)
        if rival is None or rank > rival[0]:
            worst[flow.source] = rank, flow
    ranked = sorted(worst.values(), key=lambda one: (*one[0], one[1].source), reverse=True)
    return [flow for _, flow in ranked]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceLoss:
    """Data loss if these sources fail now, as a sentence; `flow` is the one with the loss."""

    sources: tuple[str, ...]
    kind: Literal["loss", "unknown", "none"]
    sentence: str
    flow: FlowSummary | None = None


def losses(ranked: Sequence[FlowSummary], now: datetime) -> list[SourceLoss]:
    """One sentence for each source with a loss; one for all unknown, one for all without loss.

    `ranked` is what `worst_by_source` returned.
    """
    known = [flow for flow in ranked if flow.total.records]
    safe = [flow for flow in ranked if _is_safe(flow, now)]
    # By name, which is unique: comparing all fields of all pairs takes long with many flows.
    others = {flow.name for flow in (*known, *safe)}
    unknown = [flow for flow in ranked if flow.name not in others]
    found = [
        SourceLoss(sources=(f.source,), kind="loss", sentence=_known(f, now), flow=f)
        for f in known[:NAMED]
    ]
    if len(known) > NAMED:
        names = tuple(flow.source for flow in known[NAMED:])
        more = f"If one of {plural(len(names), 'more source')} fails now: fewer records lost."
        found.append(SourceLoss(sources=names, kind="loss", sentence=more))
    found += [
        SourceLoss(
            sources=(flow.source,),
            kind="unknown",
            sentence=f"If {flow.source} fails now: unknown data loss ({_why_unknown(flow, now)}).",
            flow=flow,
        )
        for flow in sorted(unknown, key=lambda flow: flow.source)[:NAMED]
    ]
    if len(unknown) > NAMED:
        rest = tuple(sorted(flow.source for flow in unknown)[NAMED:])
        said = f"Unknown data loss for {plural(len(rest), 'more source')}."
        found.append(SourceLoss(sources=rest, kind="unknown", sentence=said))
    if safe:
        names = tuple(sorted(flow.source for flow in safe))
        age = max((now - seen for flow in safe if (seen := flow.observed_at())), default=None)
        seconds = 1 if age is None else max(1, math.ceil(age.total_seconds()))
        checked = f"checked {duration(seconds * 1000)} ago"
        said = f"If {_named(names)} fails now: no data loss ({checked})."
        found.append(SourceLoss(sources=names, kind="none", sentence=said))
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorstLoss:
    """The greatest RPO and the greatest number of records over all sources.

    - `rpo_ms` is None if nothing is known. `is_least`: it is a lower bound, because an account is
      unknown, old, or has records of unknown age.
    - `records` is text with its certainty; `flow` is the one that owes them.
    """

    rpo_ms: int | None
    is_least: bool
    rpo_flow: str
    records: str
    flow: str


def worst_loss(
    flows: Iterable[FlowSummary], ranked: Sequence[FlowSummary], now: datetime
) -> WorstLoss | None:
    """None if no flow protects a source. `ranked` is what `worst_by_source` returned of `flows`."""
    protected = [flow for flow in flows if flow.state not in _NOT_PROTECTED]
    if not protected:
        return None
    lags = [
        (flow.account.time_lag_ms, flow.name)
        for flow in protected
        if flow.account is not None and flow.account.time_lag_ms is not None
    ]
    rpo, rpo_flow = max(lags, default=(None, ""))
    unsure = any(_is_unsure(flow, now) for flow in protected)
    if unsure and not rpo:
        # "At least 0 s" says nothing.
        rpo, rpo_flow = None, ""
    worst = ranked[0]
    if worst.total.records:
        stated = worst.total.as_of(_ms(now), _old_after(worst))
        records, named = amount(stated.records, stated.certainty), worst.name
    else:
        records, named = ("unknown number of records" if unsure else "0 records"), ""
    return WorstLoss(rpo_ms=rpo, is_least=unsure, rpo_flow=rpo_flow, records=records, flow=named)


def _is_unsure(flow: FlowSummary, now: datetime) -> bool:
    if flow.account is None:
        return True
    if flow.source_unreachable or not flow.account.holds_at(_ms(now)):
        return True
    return flow.account.certainty in {"unknown", "at_least"} or flow.account.unknown_lags > 0


def _old_after(flow: FlowSummary) -> int:
    return -1 if flow.source_unreachable else OLD_AFTER_MS


_Rank = tuple[int, bool, int, timedelta, int]


def _rank(flow: FlowSummary, now: datetime) -> _Rank:
    age = timedelta.max if (seen := flow.observed_at()) is None else now - seen
    # Of equals the oldest flow, so that each page names the same one.
    return flow.total.records, not _is_safe(flow, now), flow.time_lag_ms, age, -flow.key


def _is_safe(flow: FlowSummary, now: datetime) -> bool:
    """Nothing is owed, and every partition was counted on a source that was just read."""
    if flow.account is None or flow.source_unreachable:
        return False
    owed = flow.account
    return owed.certainty == "counted" and not owed.records and owed.holds_at(_ms(now))


def _known(flow: FlowSummary, now: datetime) -> str:
    """`If east fails now: at most 4,112 records lost (oldest 38 s, mostly payments).`"""
    stated = flow.total.as_of(_ms(now), _old_after(flow))
    notes = []
    seen = flow.observed_at()
    when = "seen at an unknown time" if seen is None else f"seen {how_long(seen, now)} ago"
    if flow.total.records > stated.records:
        notes.append(offsets_when_seen(flow.total, _ms(now)))
    elif is_old(flow.total.observed_at, _ms(now), min(_old_after(flow), AGE_SAID_AFTER_MS)):
        notes.append(when)
    if stated.time_lag_ms:
        bound = "at least " if stated.unknown_lags else ""
        notes.append(f"oldest {bound}{duration(stated.time_lag_ms)}")
    if flow.worst_topic:
        notes.append(f"mostly {short_name(flow.worst_topic)}")
    if stated.unknown:
        notes.append(f"unknown for {plural(stated.unknown, 'partition')}")
    what = amount(stated.records, stated.certainty)
    why = f" ({', '.join(notes)})" if notes else ""
    if flow.source_unreachable:
        return f"{flow.source} is unreachable: {what} not replicated{why}."
    return f"If {flow.source} fails now: {what} lost{why}."


def _why_unknown(flow: FlowSummary, now: datetime) -> str:
    seen = flow.observed_at()
    if flow.account is None or seen is None:
        return f"no metrics from {arrow(flow.name)} yet"
    if flow.account.unknown:
        return f"unknown for {plural(flow.account.unknown, 'partition')}"
    if flow.source_unreachable:
        return f"unreachable, in sync {how_long(seen, now)} ago"
    return f"no metrics from {arrow(flow.name)} for {how_long(seen, now)}"


def _named(names: Sequence[str]) -> str:
    """`east, south or west`; of many the first ones and their number."""
    more = len(names) - NAMED
    said = list(names) if more < 2 else [*names[:NAMED], f"one of {more} more"]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def how_long(then: datetime, now: datetime) -> str:
    return duration((now - then).total_seconds() * 1000)


def _ms(now: datetime) -> int:
    return round((now - _EPOCH).total_seconds() * 1000)
