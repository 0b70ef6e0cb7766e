"""Measurements of a drill, from the results of its simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mirrors.domain.drills.objectives import Measurement
from mirrors.domain.formatting import OLD_AFTER, duration

# The steps of a real failover before consumers may read: the plan and the resume offsets.
_RTO_STEPS = ("look", "read")
# How a loss is known that an objective can be judged by: counted, or an upper bound.
_MEASURED = ("counted", "at_most")
_COUNTS = ("groups", "places", "proven", "differs", "unproven", "unread")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTimes:
    name: str
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def lasted_ms(self) -> int | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0, round((self.ended_at - self.started_at).total_seconds() * 1000))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFigures:
    """How far behind the flow was when the drill began, as its runner last reported."""

    offset_lag: int | None
    time_lag_ms: int | None
    as_of: datetime | None
    taken_at: datetime


def measure(
    result: Mapping[str, Any] | None,
    steps: Sequence[StepTimes],
    figures: FlowFigures | None,
    blockers: Sequence[str] = (),
) -> Measurement:
    """Return the measurements of a drill.

    - `result`: the simulation's result; None if it ended before it had one.
    - `blockers`: the sentences of what would block a switchover.
    """
    totals = (result or {}).get("totals") or {}
    source_trouble = str((result or {}).get("source_trouble") or "")
    loss, loss_is, loss_why = _loss(totals, source_trouble)
    rpo_ms, rpo_why = _rpo(loss, loss_is, loss_why, figures)
    rto_ms, rto_why = _rto(steps)
    return Measurement(
        **{name: int(totals.get(name) or 0) for name in _COUNTS},
        blockers=tuple(blockers),
        re_reads=totals.get("re_reads"),
        loss=loss,
        loss_is=loss_is,
        loss_why=loss_why,
        rpo_ms=rpo_ms,
        rpo_why=rpo_why,
        rto_ms=rto_ms,
        rto_why=rto_why,
        first_record_ms=totals.get("first_record_ms"),
        drain_ms=totals.get("drain_ms"),
    )


def _loss(totals: Mapping[str, Any], source_trouble: str) -> tuple[int | None, str, str]:
    how = str(totals.get("loss_is", "unknown"))
    if not totals:
        return None, "unknown", "the simulation ended before it counted the records"
    if totals.get("loss") is None or how not in _MEASURED or totals.get("loss_unknown"):
        # A lower bound meets no objective: what came since is lost as well.
        why = source_trouble.rstrip(".") or "the source was unreachable"
        return None, "unknown", why
    return int(totals["loss"]), how, ""


def _rpo(
    loss: int | None, loss_is: str, loss_why: str, figures: FlowFigures | None
) -> tuple[int | None, str]:
    if loss is None:
        return None, loss_why
    if loss == 0:
        return 0, ""
    if figures is None or figures.as_of is None or figures.time_lag_ms is None:
        return None, "the flow had not reported the age of its oldest record"
    age = figures.taken_at - figures.as_of
    if age > OLD_AFTER:
        old = duration(age.total_seconds() * 1000)
        return None, f"the flow's figures were {old} old when the drill began"
    return figures.time_lag_ms, ""


def _rto(steps: Sequence[StepTimes]) -> tuple[int | None, str]:
    lasted = {step.name: step.lasted_ms for step in steps}
    total = 0
    for name in _RTO_STEPS:
        taken = lasted.get(name)
        if taken is None:
            return None, f"the step “{name}” of the simulation did not end"
        total += taken
    return total, ""
