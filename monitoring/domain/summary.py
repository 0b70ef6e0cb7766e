"""The first sentence of the overview: what is unhealthy, what would be lost, where to look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from mirrors.domain.figures import BEHIND_AFTER_MS, OLD_AFTER, arrow, duration, plural

Tone = Literal["good", "attention", "critical", "resting", "unknown"]

_RESTING = {"draft", "paused", "stopped", "failed_over"}
_ALARMS: dict[str, Tone] = {"critical": "critical", "warning": "attention"}
_ORDER: tuple[Tone, ...] = ("critical", "attention", "unknown", "resting", "good")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowPicture:
    """One flow as the last report left it; a figure that is not known is None, never 0."""

    name: str
    source: str
    state: str
    reason: str = ""
    offset_lag: int | None = None
    time_lag_ms: int | None = None
    worst_topic: str = ""
    as_of: datetime | None = None
    # Its source was looked at and did not answer.
    source_is_gone: bool = False
    # The gravest alert that fires of it and that nobody silenced: how grave, and its sentence
    # unless that is about the lag, which stands here fresher.
    severity: str = ""
    alert: str = ""


@dataclasses.dataclass(frozen=True)
class Trouble:
    """One flow that needs a person, and why: `flow` is its name, so that a page can link it."""

    flow: str
    sentence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The headline with its tone; what would be lost; what is wrong, by flow; what rests.

    `engine` speaks of our own processes when they are why nothing new is known.
    """

    tone: Tone
    headline: str
    losses: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    resting: str = ""
    engine: str = ""


def is_stale(flow: FlowPicture, now: datetime) -> bool:
    """A flow that rests has no fresh figures and needs none."""
    if flow.state in _RESTING:
        return False
    return flow.as_of is None or now - flow.as_of > OLD_AFTER


def tone(flow: FlowPicture, now: datetime) -> Tone:
    """How much one flow needs a person: by its state, or by what fires of it."""
    calm = _tone_of_state(flow, now)
    alarm = _ALARMS.get(flow.severity)
    return calm if alarm is None else min(calm, alarm, key=_ORDER.index)


def _tone_of_state(flow: FlowPicture, now: datetime) -> Tone:
    if flow.state == "failed" or (flow.source_is_gone and flow.state not in _RESTING):
        return "critical"
    if flow.state in {"degraded", "backing_off"}:
        return "attention"
    if flow.state in _RESTING:
        return "resting"
    if flow.state == "starting":
        return "good"
    if is_stale(flow, now):
        return "unknown"
    return "attention" if (flow.time_lag_ms or 0) > BEHIND_AFTER_MS else "good"


def by_trouble(flows: Sequence[FlowPicture], now: datetime) -> list[FlowPicture]:
    """Worst first, then by name: the order of the rows on the first screen."""
    return sorted(
        flows, key=lambda flow: (_ORDER.index(tone(flow, now)), -(flow.time_lag_ms or 0), flow.name)
    )


def summarise(flows: Sequence[FlowPicture], now: datetime, silent: Sequence[str] = ()) -> Summary:
    """Read by someone who was woken: is something wrong, what is lost if, where to look.

    `silent` names those of our own processes that show no sign of life.
    """
    if not flows:
        headline = "Nothing is replicated yet"
        return Summary(tone="resting", headline=headline, engine=_engine(silent))
    tones = {flow.name: tone(flow, now) for flow in flows}
    ordered = by_trouble(flows, now)
    troubled = [
        flow for flow in ordered if tones[flow.name] in {"critical", "attention", "unknown"}
    ]
    resting = [flow for flow in ordered if tones[flow.name] == "resting"]
    worst = tones[ordered[0].name]
    return Summary(
        tone=worst if worst != "resting" or len(resting) == len(flows) else "good",
        headline=_headline(len(flows), len(troubled), len(resting)),
        losses=_losses(_worst_by_source(flows, now), now),
        troubles=tuple(Trouble(flow.name, _trouble(flow, now)) for flow in troubled[:3]),
        resting=_resting(resting),
        engine=_engine(silent),
    )


def _headline(total: int, troubled: int, resting: int) -> str:
    if troubled:
        if total == 1:
            return "The only flow needs attention"
        verb = "needs" if troubled == 1 else "need"
        return f"{troubled} of {total} flows {verb} attention"
    active = total - resting
    if not active:
        return "The only flow rests" if total == 1 else f"{_all(total)} rest"
    if active == total:
        return "The only flow is healthy" if total == 1 else f"{_all(total)} are healthy"
    verb = "flow is" if active == 1 else "flows are"
    return f"{active} active {verb} healthy, {resting} at rest"


def _all(total: int) -> str:
    return "Both flows" if total == 2 else f"All {total} flows"


def _worst_by_source(flows: Sequence[FlowPicture], now: datetime) -> list[FlowPicture]:
    """For each source the flow that would lose most; not known counts as most."""
    worst: dict[str, FlowPicture] = {}
    for flow in flows:
        if flow.state == "draft":
            continue
        rival = worst.get(flow.source)
        if rival is None or _loss_rank(flow, now) > _loss_rank(rival, now):
            worst[flow.source] = flow
    ranked = sorted(worst.values(), key=lambda flow: (_loss_rank(flow, now), flow.source))
    return ranked[::-1]


def _loss_rank(flow: FlowPicture, now: datetime) -> tuple[bool, int, int]:
    unknown = not _figures_hold(flow, now)
    return (unknown, flow.time_lag_ms or 0, flow.offset_lag or 0)


def _figures_hold(flow: FlowPicture, now: datetime) -> bool:
    if flow.offset_lag is None or flow.as_of is None:
        return False
    return now - flow.as_of <= OLD_AFTER


def _losses(worst: Sequence[FlowPicture], now: datetime) -> tuple[str, ...]:
    """The two worst sources by name, and in one sentence all whose loss is nothing."""
    safe = [
        flow
        for flow in worst
        if _figures_hold(flow, now) and not flow.offset_lag and not flow.source_is_gone
    ]
    rest = [_loss(flow, now) for flow in worst if flow not in safe][:2]
    if safe:
        names = sorted(flow.source for flow in safe)
        which = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        rest.append(f"If {which} died now: nothing would be lost.")
    return tuple(rest)


def _loss(flow: FlowPicture, now: datetime) -> str:
    if flow.source_is_gone and flow.offset_lag is not None:
        return _gone(flow)
    if flow.offset_lag is None or not _figures_hold(flow, now):
        age = "" if flow.as_of is None else f" for {_age(flow.as_of, now)}"
        return f"If {flow.source} died now: loss unknown, no figures from {arrow(flow.name)}{age}."
    return f"If {flow.source} died now: {plural(flow.offset_lag, 'record')} lost{_which(flow)}."


def _gone(flow: FlowPicture) -> str:
    """No more is known than what was seen before."""
    if not flow.offset_lag:
        return f"{flow.source} does not answer; all that it was last seen to hold is copied."
    waiting = plural(flow.offset_lag, "record")
    return f"{flow.source} does not answer; not copied from it: {waiting} at least{_which(flow)}."


def _which(flow: FlowPicture) -> str:
    topic = f", most in {flow.worst_topic}" if flow.worst_topic else ""
    oldest = "" if flow.time_lag_ms is None else f", the oldest {duration(flow.time_lag_ms)} old"
    return f"{oldest}{topic}"


def _trouble(flow: FlowPicture, now: datetime) -> str:
    """Goes on after the flow's name."""
    if flow.state == "running" and is_stale(flow, now):
        age = "ever" if flow.as_of is None else f"for {_age(flow.as_of, now)}"
        return f"has sent no figures {age}: is its runner alive?"
    if flow.state == "running" and flow.source_is_gone:
        return f"reads from {flow.source}, which does not answer."
    if flow.state == "running":
        late = (flow.time_lag_ms or 0) > BEHIND_AFTER_MS or not flow.alert
        return f"is {duration(flow.time_lag_ms)} behind." if late else f"{flow.alert}."
    if flow.state in _RESTING and flow.severity:
        more = f"it {flow.alert}" if flow.alert else f"it is {duration(flow.time_lag_ms)} behind"
        return f"is {flow.state.replace('_', ' ')}; {more}."
    reason = flow.reason.rstrip(".")
    return f"is {flow.state.replace('_', ' ')}{': ' + reason if reason else ''}."


def _resting(flows: Sequence[FlowPicture]) -> str:
    """Named while they are few."""
    if len(flows) > 2:
        return f"{len(flows)} flows are at rest and copy nothing."
    return " ".join(f"{arrow(flow.name)} is {flow.state.replace('_', ' ')}." for flow in flows)


def _engine(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    names = " and ".join(filter(None, (", ".join(silent[:-1]), silent[-1])))
    verb = "shows" if len(silent) == 1 else "show"
    return (
        f"{names} {verb} no sign of life: states and figures here stand still, and nobody restarts "
        "what fails. Records keep flowing."
    )


def _age(then: datetime, now: datetime) -> str:
    return duration((now - then).total_seconds() * 1000)
