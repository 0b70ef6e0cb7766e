"""When a drill last verified a flow's standby, and whether that is still recent enough."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Literal

from mirrors.domain.formatting import duration, plural

# proven: the last drill passed lately. stale: it passed too long ago. failed: the last one failed.
ProvenState = Literal["proven", "stale", "failed", "never"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LastDrills:
    """`passed_at` is of the last drill of all groups that passed, the rest of the last that ended.

    A drill of some groups proves nothing of the others. One that failed is a failure all the same.
    """

    passed_at: datetime | None = None
    ended_at: datetime | None = None
    ended_well: bool = False
    had_objectives: bool = True
    reason: str = ""
    scheduled: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrillProof:
    state: ProvenState
    at: datetime | None
    age: timedelta | None
    sentence: str


def proven_state(
    passed_at: datetime | None, *, failed: bool, now: datetime, stale_after: timedelta
) -> tuple[ProvenState, timedelta | None]:
    """Return what the last drills prove of the standby, and how long ago the last one passed.

    `passed_at` is of the last one of all groups that passed; `failed`: the last one that ended did
    not pass. It makes no sentence, because the overview calls it for every flow.
    """
    age = None if passed_at is None else max(timedelta(), now - passed_at)
    if failed:
        return "failed", age
    if age is None:
        return "never", None
    return "stale" if age > stale_after else "proven", age


def last_proven(last: LastDrills, *, now: datetime, stale_after: timedelta) -> DrillProof:
    """Return the same with a sentence."""
    failed = last.ended_at is not None and not last.ended_well
    state, age = proven_state(last.passed_at, failed=failed, now=now, stale_after=stale_after)
    if last.ended_at is not None and state == "failed":
        since = "" if age is None else f" The last drill that passed was {_old(age)} ago."
        sentence = f"The last drill, {_old(now - last.ended_at)} ago, failed: {last.reason}{since}"
    elif age is None:
        plan = "" if last.scheduled else " Schedule one, or run one now."
        why = "No drill has ended yet, so this standby is untested."
        if last.ended_at is not None:
            why = "Drills have passed for some groups only, so this standby is untested as a whole."
            plan = " Run one of all groups."
        sentence = f"{why}{plan}"
    elif state == "stale":
        sentence = (
            f"The last drill passed {_old(age)} ago, which is out of date after "
            f"{plural(stale_after.days, 'day')}. Run one."
        )
    elif not last.had_objectives:
        sentence = f"The last drill verified the offsets {_old(age)} ago. No objectives are set."
    else:
        sentence = f"The last drill passed {_old(age)} ago."
    return DrillProof(state=state, at=last.passed_at, age=age, sentence=sentence)


def _old(age: timedelta) -> str:
    return duration(max(0.0, round(age.total_seconds())) * 1000)
