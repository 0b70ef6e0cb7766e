"""The summary of the overview: health of all flows, data loss, flows in trouble, drills."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from mirrors.domain.account.sentences import owed, owed_as_of
from mirrors.domain.drills.proof import ProvenState
from mirrors.domain.formatting import BEHIND_AFTER_MS, OLD_AFTER, arrow, duration, plural
from monitoring.domain.overview.data_loss import (
    NOT_RUNNING,
    FlowSummary,
    SourceLoss,
    WorstLoss,
    how_long,
    losses,
    worst_by_source,
    worst_loss,
)

Tone = Literal["good", "attention", "critical", "resting", "unknown", "starting"]

_NOT_WELL = {"degraded", "backing_off", "failed"}
_ALARMS: dict[str, Tone] = {"critical": "critical", "warning": "attention"}
_ORDER: tuple[Tone, ...] = ("critical", "attention", "unknown", "starting", "resting", "good")
_RANK = {tone: at for at, tone in enumerate(_ORDER)}
_TROUBLED = {"critical", "attention", "unknown"}


@dataclasses.dataclass(frozen=True)
class FlowProblem:
    """A flow that needs attention, and why; `flow` is its name.

    `by_state`: because of its state, not of a figure or an alert.
    """

    flow: str
    sentence: str
    by_state: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Number of flows by what a person has to know of them."""

    healthy: int = 0
    attention: int = 0
    starting: int = 0
    stopped: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The headline with its tone, data loss, flows in trouble, and flows that are not running.

    `engine` names missing processes, which make all figures stale. `ordered`: all flows, by
    severity.
    """

    tone: Tone
    headline: str
    ordered: tuple[FlowSummary, ...] = ()
    counts: Counts = Counts()
    losses: tuple[SourceLoss, ...] = ()
    worst: WorstLoss | None = None
    troubles: tuple[FlowProblem, ...] = ()
    not_running: str = ""
    engine: str = ""


def is_stale(flow: FlowSummary, now: datetime) -> bool:
    """Flows that are not running have no fresh figures and need none."""
    if flow.state in NOT_RUNNING:
        return False
    return flow.as_of is None or now - flow.as_of > OLD_AFTER


def tone(flow: FlowSummary, now: datetime) -> Tone:
    """The severity of a flow: by its state or by its firing alert, whichever is worse."""
    calm = _tone_of_state(flow, now)
    alarm = _ALARMS.get(flow.severity)
    return calm if alarm is None else min(calm, alarm, key=_worst_first)


def _worst_first(tone: Tone) -> int:
    return _RANK[tone]


def _tone_of_state(flow: FlowSummary, now: datetime) -> Tone:
    if flow.state == "failed" or (flow.source_unreachable and flow.state not in NOT_RUNNING):
        return "critical"
    if flow.state in {"degraded", "backing_off"}:
        return "attention"
    if flow.state in NOT_RUNNING:
        return "resting"
    if flow.state == "starting":
        return "starting"
    if is_stale(flow, now):
        return "unknown"
    is_late = flow.time_lag_ms > BEHIND_AFTER_MS
    return "attention" if is_late or flow.total.unknown else "good"


def _by_severity(
    flows: Iterable[FlowSummary], tones: Iterable[Tone]
) -> tuple[list[FlowSummary], list[Tone]]:
    """The flows in the order of the rows on the overview, and their tones: worst first, by name.

    A failed-over flow is last, because clients no longer write to its source.
    """
    ranked = []
    for at, (flow, its_tone) in enumerate(zip(flows, tones, strict=True)):
        owes = flow.total
        rank = _RANK[its_tone], -(owes.time_lag_ms or 0), -owes.records, flow.name
        ranked.append((flow.state == "failed_over", *rank, at, flow, its_tone))
    ranked.sort()
    return [row[-2] for row in ranked], [row[-1] for row in ranked]


def summarize(
    flows: Sequence[FlowSummary],
    now: datetime,
    silent: Sequence[str] = (),
) -> Summary:
    """The summary for on-call: what is wrong, on which side, and what would be lost.

    `silent` names missing processes. A cluster counts only through its flows.
    """
    if not flows:
        headline = "Nothing is replicated yet"
        return Summary(tone="resting", headline=headline, engine=_engine(silent))
    ordered, tones = _by_severity(flows, [tone(flow, now) for flow in flows])
    counted = Counter(tones)
    starting, worst = counted["starting"], min(counted, key=_worst_first)
    by_tone = list(zip(ordered, tones, strict=True))
    troubled = [flow for flow, its_tone in by_tone if its_tone in _TROUBLED]
    idle = [flow for flow, its_tone in by_tone if its_tone == "resting"]
    ranked = worst_by_source(flows, now)
    return Summary(
        tone=worst if worst != "resting" or len(idle) == len(flows) else "good",
        headline=_headline(len(flows), len(troubled), len(idle), starting) + _cause(troubled),
        ordered=tuple(ordered),
        counts=Counts(
            healthy=counted["good"],
            attention=len(troubled),
            starting=starting,
            stopped=len(idle),
        ),
        losses=tuple(losses(ranked, now)),
        worst=worst_loss(flows, ranked, now),
        troubles=tuple(
            FlowProblem(flow.name, _trouble(flow, now), flow.state in _NOT_WELL)
            for flow in troubled[:3]
        ),
        not_running=_not_running(idle, now),
        engine=_engine(silent),
    )


def _headline(total: int, troubled: int, idle: int, starting: int) -> str:
    if troubled:
        if total == 1:
            return "The only flow needs attention"
        verb = "needs" if troubled == 1 else "need"
        return f"{troubled} of {total} flows {verb} attention"
    if starting:
        # Not healthy yet: their data loss is known only when they run.
        if total == starting:
            return "The only flow is starting" if total == 1 else f"{_all(total)} are starting"
        return f"{starting} of {total} flows {'is' if starting == 1 else 'are'} starting"
    active = total - idle
    if not active:
        return (
            "The only flow is stopped or paused"
            if total == 1
            else f"{_all(total)} are stopped or paused"
        )
    if active == total:
        return "The only flow is healthy" if total == 1 else f"{_all(total)} are healthy"
    return f"{plural(active, 'flow')} healthy, {idle} stopped or paused"


def _cause(troubled: Sequence[FlowSummary]) -> str:
    """Unreachable clusters of the flows in trouble: the cause is on their side."""
    gone = sorted(
        {flow.source for flow in troubled if flow.source_unreachable}
        | {flow.target for flow in troubled if flow.target_unreachable}
    )
    if not gone:
        return ""
    if len(gone) > 2:
        return f": {len(gone)} clusters are unreachable"
    return f": {' and '.join(gone)} {'is' if len(gone) == 1 else 'are'} unreachable"


def _all(total: int) -> str:
    return "Both flows" if total == 2 else f"All {total} flows"


def _trouble(flow: FlowSummary, now: datetime) -> str:
    """The sentence after the name of the flow."""
    if flow.state == "running" and is_stale(flow, now):
        age = "ever" if flow.as_of is None else f"for {how_long(flow.as_of, now)}"
        return f"has sent no metrics {age}: is its runner running?"
    if flow.state == "running" and flow.source_unreachable:
        return f"reads from {flow.source}, which is unreachable."
    if flow.state == "running":
        if flow.time_lag_ms <= BEHIND_AFTER_MS and flow.alert:
            return f"{flow.alert}."
        return f"is {_behind(flow)}."
    if flow.state in NOT_RUNNING and flow.severity:
        more = f"it {flow.alert}" if flow.alert else f"it is {_behind(flow)}"
        return f"is {flow.state.replace('_', ' ')}; {more}."
    reason = flow.reason.rstrip(".")
    return f"is {flow.state.replace('_', ' ')}{': ' + reason if reason else ''}."


def _behind(flow: FlowSummary) -> str:
    """`38 s behind`; with unknown partitions, the lower bound and their number."""
    late = f"{duration(flow.time_lag_ms)} behind" if flow.time_lag_ms else "behind"
    return f"{late}: {owed(flow.total)}" if flow.total.unknown else late


def _not_running(flows: Sequence[FlowSummary], now: datetime) -> str:
    """Flows that are not running, with the records that they did not copy."""
    idle = [flow for flow in flows if flow.state != "failed_over"]
    over = len(flows) - len(idle)
    if len(idle) > 2:
        left = [flow for flow in idle if flow.total.records or flow.total.unknown]
        named = ", ".join(f"{arrow(flow.name)} {_not_copied(flow, now)}" for flow in left[:2])
        more = f" and {len(left) - 2} more" if len(left) > 2 else ""
        not_copied = f" Not replicated: {named}{more}." if left else ""
        words = f"{len(idle)} flows are paused, stopped or drafts.{not_copied}"
    else:
        words = " ".join(_one_not_running(flow, now) for flow in idle)
    if over:
        words += f" {plural(over, 'flow')} {'was' if over == 1 else 'were'} failed over."
    return words.strip()


def _one_not_running(flow: FlowSummary, now: datetime) -> str:
    words = f"{arrow(flow.name)} is {flow.state.replace('_', ' ')}"
    if not (flow.total.records or flow.total.unknown):
        return f"{words}."
    return f"{words}; not replicated: {_not_copied(flow, now)}."


def _not_copied(flow: FlowSummary, now: datetime) -> str:
    return owed_as_of(flow.total, round(now.timestamp() * 1000))


def _engine(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    names = " and ".join(filter(None, (", ".join(silent[:-1]), silent[-1])))
    verb = "is" if len(silent) == 1 else "are"
    return (
        f"{names} {verb} missing: states and figures on this page are stale, and failed flows are "
        "not restarted. Replication continues."
    )


# This many standbys that failed are named.
_DRILLS_NAMED = 2


class StandbyProof(NamedTuple):
    """One flow's target, by its last drill."""

    flow: str
    proven: ProvenState


def drill_sentence(standbys: Iterable[StandbyProof]) -> str:
    """`Drills: 1 of 14 standbys passed, 1 failed (a→b), 12 never tested in full.`"""
    flows: dict[ProvenState, list[str]] = {state: [] for state in _DRILL_TEXTS}
    for flow, state in standbys:
        flows[state].append(flow)
    count = sum(map(len, flows.values()))
    if not count:
        return ""
    if len(flows["never"]) == count:
        return "No failover drill of all groups has been run yet."
    passed = f"{len(flows.pop('proven'))} of {count} standbys passed"
    parts = [
        f"{len(found)} {_DRILL_TEXTS[state]}{_failed_names(found) if state == 'failed' else ''}"
        for state, found in flows.items()
        if found
    ]
    return f"Drills: {', '.join([passed, *parts])}."


_DRILL_TEXTS: dict[ProvenState, str] = {
    "proven": "passed",
    "failed": "failed",
    "stale": "passed too long ago",
    "never": "never tested in full",
}


def _failed_names(flows: Sequence[str]) -> str:
    names = [arrow(flow) for flow in sorted(flows)[:_DRILLS_NAMED]]
    return f" ({', '.join(names)}{', …' if len(flows) > _DRILLS_NAMED else ''})"
