"""What would be lost if a source died now, in sentences; nothing is promised from old figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from mirrors.domain.figures import OLD_AFTER, arrow, duration, plural

NOT_WELL = {"degraded", "backing_off", "failed"}


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


def worst_by_source(flows: Sequence[FlowPicture], now: datetime) -> list[FlowPicture]:
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


def _loss_rank(flow: FlowPicture, now: datetime) -> tuple[bool, int, int, timedelta]:
    unknown = not _figures_hold(flow, now)
    age = timedelta.max if flow.as_of is None else now - flow.as_of
    return (unknown, flow.time_lag_ms or 0, flow.offset_lag or 0, age)


def _figures_hold(flow: FlowPicture, now: datetime) -> bool:
    if flow.offset_lag is None or flow.as_of is None:
        return False
    return now - flow.as_of <= OLD_AFTER


def losses(worst: Sequence[FlowPicture], now: datetime) -> tuple[str, ...]:
    """The two worst sources by name, and in one sentence all whose loss is nothing."""
    safe = [
        flow
        for flow in worst
        if _figures_hold(flow, now) and not flow.offset_lag and not _may_hide(flow)
    ]
    rest = [_loss(flow, now) for flow in worst if flow not in safe][:2]
    if safe:
        names = sorted(flow.source for flow in safe)
        which = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        held = "it held" if len(names) == 1 else "they held"
        rest.append(
            f"If {which} died now: nothing of what {held} {_seen(safe, now)} would be lost."
        )
    return tuple(rest)


def _seen(flows: Sequence[FlowPicture], now: datetime) -> str:
    """When all of them were seen: what was written since then may not be copied yet."""
    oldest = max((now - flow.as_of for flow in flows if flow.as_of), default=timedelta())
    return f"{duration(max(1, math.ceil(oldest.total_seconds())) * 1000)} ago"


def _may_hide(flow: FlowPicture) -> bool:
    """The source may hold more than was seen: it is not read at the moment."""
    return flow.source_is_gone or flow.state in NOT_WELL


def _loss(flow: FlowPicture, now: datetime) -> str:
    if flow.source_is_gone and flow.offset_lag is not None:
        return _gone(flow)
    if flow.offset_lag == 0 and _figures_hold(flow, now):
        return f"If {flow.source} died now: nothing of what was last seen there would be lost."
    if flow.offset_lag is None or not _figures_hold(flow, now):
        is_old = flow.as_of is not None and now - flow.as_of > OLD_AFTER
        age = f" for {how_long(flow.as_of, now)}" if flow.as_of and is_old else ""
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


def how_long(then: datetime, now: datetime) -> str:
    return duration((now - then).total_seconds() * 1000)
