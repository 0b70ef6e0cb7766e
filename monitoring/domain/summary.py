"""The first sentence of the overview: what is unhealthy, what would be lost, where to look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from mirrors.domain.figures import BEHIND_AFTER_MS, OLD_AFTER, arrow, duration
from monitoring.domain.losses import NOT_WELL, FlowPicture, how_long, losses, worst_by_source

Tone = Literal["good", "attention", "critical", "resting", "unknown", "starting"]

_RESTING = {"draft", "paused", "stopped", "failed_over"}
_ALARMS: dict[str, Tone] = {"critical": "critical", "warning": "attention"}
_ORDER: tuple[Tone, ...] = ("critical", "attention", "unknown", "starting", "resting", "good")


@dataclasses.dataclass(frozen=True)
class Trouble:
    """One flow that needs a person, and why: `flow` is its name, so that a page can link it.

    `by_state`: it is the state of the flow that says so, not a figure or an alert.
    """

    flow: str
    sentence: str
    by_state: bool = False


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
        return "starting"
    if is_stale(flow, now):
        return "unknown"
    return "attention" if (flow.time_lag_ms or 0) > BEHIND_AFTER_MS else "good"


def by_trouble(flows: Sequence[FlowPicture], now: datetime) -> list[FlowPicture]:
    """Worst first, then by name: the order of the rows on the first screen."""
    return sorted(
        flows, key=lambda flow: (_ORDER.index(tone(flow, now)), -(flow.time_lag_ms or 0), flow.name)
    )


def summarise(
    flows: Sequence[FlowPicture],
    now: datetime,
    silent: Sequence[str] = (),
    gone: Sequence[str] = (),
) -> Summary:
    """Read by someone who was woken: is something wrong, us or them, what is lost if.

    `silent` names those of our own processes that show no sign of life, `gone` the clusters that
    do not answer.
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
    starting = sum(tone == "starting" for tone in tones.values())
    worst = tones[ordered[0].name]
    return Summary(
        tone=worst if worst != "resting" or len(resting) == len(flows) else "good",
        headline=_headline(len(flows), len(troubled), len(resting), starting)
        + _cause(gone, troubled),
        losses=losses(worst_by_source(flows, now), now),
        troubles=tuple(
            Trouble(flow.name, _trouble(flow, now), flow.state in NOT_WELL) for flow in troubled[:3]
        ),
        resting=_resting(resting),
        engine=_engine(silent),
    )


def _headline(total: int, troubled: int, resting: int, starting: int) -> str:
    if troubled:
        if total == 1:
            return "The only flow needs attention"
        verb = "needs" if troubled == 1 else "need"
        return f"{troubled} of {total} flows {verb} attention"
    if starting:
        # Not healthy yet: what would be lost is known when they run.
        if total == starting:
            return "The only flow is starting" if total == 1 else f"{_all(total)} are starting"
        return f"{starting} of {total} flows {'is' if starting == 1 else 'are'} starting"
    active = total - resting
    if not active:
        return "The only flow rests" if total == 1 else f"{_all(total)} rest"
    if active == total:
        return "The only flow is healthy" if total == 1 else f"{_all(total)} are healthy"
    verb = "flow is" if active == 1 else "flows are"
    return f"{active} active {verb} healthy, {resting} at rest"


def _cause(gone: Sequence[str], troubled: Sequence[FlowPicture]) -> str:
    """Them, not us: said first of all, since nothing on our side mends it."""
    if not gone or not troubled:
        return ""
    if len(gone) > 2:
        return f": {len(gone)} clusters do not answer"
    return f": {' and '.join(gone)} {'does' if len(gone) == 1 else 'do'} not answer"


def _all(total: int) -> str:
    return "Both flows" if total == 2 else f"All {total} flows"


def _trouble(flow: FlowPicture, now: datetime) -> str:
    """Goes on after the flow's name."""
    if flow.state == "running" and is_stale(flow, now):
        age = "ever" if flow.as_of is None else f"for {how_long(flow.as_of, now)}"
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
