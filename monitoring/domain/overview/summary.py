"""The first sentence of the overview: what is unhealthy, what would be lost, where to look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from mirrors.domain.account.sentences import owed, owed_as_of
from mirrors.domain.formatting import BEHIND_AFTER_MS, OLD_AFTER, arrow, duration, plural
from monitoring.domain.overview.data_loss import RESTING, FlowPicture, how_long, losses

Tone = Literal["good", "attention", "critical", "resting", "unknown", "starting"]

_NOT_WELL = {"degraded", "backing_off", "failed"}
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
    """The headline with its tone; what would be lost; what is wrong, by flow; what is stopped.

    `engine` speaks of our own processes when they are why nothing new is known.
    """

    tone: Tone
    headline: str
    losses: str = ""
    troubles: tuple[Trouble, ...] = ()
    resting: str = ""
    engine: str = ""


def is_stale(flow: FlowPicture, now: datetime) -> bool:
    """A flow that rests has no fresh figures and needs none."""
    if flow.state in RESTING:
        return False
    return flow.as_of is None or now - flow.as_of > OLD_AFTER


def tone(flow: FlowPicture, now: datetime) -> Tone:
    """How much one flow needs a person: by its state, or by what fires of it."""
    calm = _tone_of_state(flow, now)
    alarm = _ALARMS.get(flow.severity)
    return calm if alarm is None else min(calm, alarm, key=_ORDER.index)


def _tone_of_state(flow: FlowPicture, now: datetime) -> Tone:
    if flow.state == "failed" or (flow.source_is_gone and flow.state not in RESTING):
        return "critical"
    if flow.state in {"degraded", "backing_off"}:
        return "attention"
    if flow.state in RESTING:
        return "resting"
    if flow.state == "starting":
        return "starting"
    if is_stale(flow, now):
        return "unknown"
    is_late = flow.time_lag_ms > BEHIND_AFTER_MS
    return "attention" if is_late or flow.total.unknown else "good"


def by_trouble(flows: Sequence[FlowPicture], now: datetime) -> list[FlowPicture]:
    """Worst first, then by name: the order of the rows on the first screen.

    A flow that was failed over is last: nothing is written to its source any more.
    """
    return sorted(
        flows,
        key=lambda flow: (
            flow.state == "failed_over",
            _ORDER.index(tone(flow, now)),
            -flow.time_lag_ms,
            -flow.total.records,
            flow.name,
        ),
    )


def summarise(
    flows: Sequence[FlowPicture],
    now: datetime,
    silent: Sequence[str] = (),
) -> Summary:
    """Read by someone who was woken: is something wrong, us or them, what would be lost.

    `silent` names those of our own processes that show no sign of life. A cluster counts only
    through the flows that use it.
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
    worst = min(tones.values(), key=_ORDER.index)
    return Summary(
        tone=worst if worst != "resting" or len(resting) == len(flows) else "good",
        headline=_headline(len(flows), len(troubled), len(resting), starting) + _cause(troubled),
        losses=losses(flows, now),
        troubles=tuple(
            Trouble(flow.name, _trouble(flow, now), flow.state in _NOT_WELL)
            for flow in troubled[:3]
        ),
        resting=_resting(resting, now),
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
        return "The only flow is stopped" if total == 1 else f"{_all(total)} are stopped"
    if active == total:
        return "The only flow is healthy" if total == 1 else f"{_all(total)} are healthy"
    verb = "flow is" if active == 1 else "flows are"
    return f"{active} active {verb} healthy, {resting} stopped"


def _cause(troubled: Sequence[FlowPicture]) -> str:
    """Clusters of the flows in trouble that are unreachable: nothing on our side fixes that."""
    gone = sorted(
        {flow.source for flow in troubled if flow.source_is_gone}
        | {flow.target for flow in troubled if flow.target_is_gone}
    )
    if not gone:
        return ""
    if len(gone) > 2:
        return f": {len(gone)} clusters are unreachable"
    return f": {' and '.join(gone)} {'is' if len(gone) == 1 else 'are'} unreachable"


def _all(total: int) -> str:
    return "Both flows" if total == 2 else f"All {total} flows"


def _trouble(flow: FlowPicture, now: datetime) -> str:
    """Goes on after the flow's name."""
    if flow.state == "running" and is_stale(flow, now):
        age = "ever" if flow.as_of is None else f"for {how_long(flow.as_of, now)}"
        return f"has sent no figures {age}: is its runner alive?"
    if flow.state == "running" and flow.source_is_gone:
        return f"reads from {flow.source}, which is unreachable."
    if flow.state == "running":
        if flow.time_lag_ms <= BEHIND_AFTER_MS and flow.alert:
            return f"{flow.alert}."
        return f"is {_behind(flow)}."
    if flow.state in RESTING and flow.severity:
        more = f"it {flow.alert}" if flow.alert else f"it is {_behind(flow)}"
        return f"is {flow.state.replace('_', ' ')}; {more}."
    reason = flow.reason.rstrip(".")
    return f"is {flow.state.replace('_', ' ')}{': ' + reason if reason else ''}."


def _behind(flow: FlowPicture) -> str:
    """`38 s behind`; with an unknown part, how many records at least and where it is unknown."""
    late = f"{duration(flow.time_lag_ms)} behind" if flow.time_lag_ms else "behind"
    return f"{late}: {owed(flow.total)}" if flow.total.unknown else late


def _resting(flows: Sequence[FlowPicture], now: datetime) -> str:
    """Flows that copy nothing: named while they are few, with what they did not copy."""
    idle = [flow for flow in flows if flow.state != "failed_over"]
    over = len(flows) - len(idle)
    if len(idle) > 2:
        left = [flow for flow in idle if flow.total.records or flow.total.unknown]
        named = ", ".join(f"{arrow(flow.name)} {_not_copied(flow, now)}" for flow in left[:2])
        more = f" and {len(left) - 2} more" if len(left) > 2 else ""
        not_copied = f" Not copied: {named}{more}." if left else ""
        words = f"{len(idle)} flows are paused, stopped or drafts.{not_copied}"
    else:
        words = " ".join(_one_resting(flow, now) for flow in idle)
    if over:
        words += f" {plural(over, 'flow')} {'was' if over == 1 else 'were'} failed over."
    return words.strip()


def _one_resting(flow: FlowPicture, now: datetime) -> str:
    words = f"{arrow(flow.name)} is {flow.state.replace('_', ' ')}"
    if not (flow.total.records or flow.total.unknown):
        return f"{words}."
    return f"{words}; not copied: {_not_copied(flow, now)}."


def _not_copied(flow: FlowPicture, now: datetime) -> str:
    return owed_as_of(flow.total, round(now.timestamp() * 1000))


def _engine(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    names = " and ".join(filter(None, (", ".join(silent[:-1]), silent[-1])))
    verb = "shows" if len(silent) == 1 else "show"
    return (
        f"{names} {verb} no sign of life: states and figures here stand still, and nobody restarts "
        "what fails. Records keep flowing."
    )
