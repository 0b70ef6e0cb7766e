"""Which sync task of a flow is due, from its settings, its last runs and the time.

Time is divided into slots of the interval's length; a slot is named by the second at which it
begins. A task is due if its last slot is an earlier one, so one run makes up for all missed ones.
"""

from __future__ import annotations

import dataclasses

from mirrors.domain.settings.table import KEYS
from mirrors.domain.specs import FlowSettings, FlowSpec

# Duties at least as frequent as this leave roll-ups and failures, not a row for each run.
FREQUENT_S = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncTaskContext:
    """The input of a sync task: flow, time (epoch ms), and time limit of all Kafka calls."""

    flow_id: int
    spec: FlowSpec
    now: int
    deadline_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a sync task: counts, and a sentence for each thing that it left undone."""

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A sync task by its name; `switch` and `interval` name fields of FlowSettings.

    - Without a switch it is always on; without an interval it runs every `every_s` seconds.
    - `at_rest`: it also runs while the flow is stopped or its source is unreachable, because it
      needs only the target.
    """

    name: str
    does: str
    switch: str = ""
    interval: str = ""
    every_s: int = 0
    at_rest: bool = False

    def is_on(self, settings: FlowSettings) -> bool:
        return bool(getattr(settings, self.switch)) if self.switch else True

    def interval_s(self, settings: FlowSettings) -> int:
        return int(getattr(settings, self.interval)) if self.interval else self.every_s

    def is_frequent(self, settings: FlowSettings) -> bool:
        return self.interval_s(settings) <= FREQUENT_S


@dataclasses.dataclass(frozen=True, kw_only=True)
class PastRuns:
    """What is known of a task's runs: the last slot, and whether one runs now."""

    slot: int | None = None
    runs: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleDecision:
    """Whether a task is due in `slot`, when its next run is, and why it is not due now."""

    due: bool
    slot: int
    next_at: int | None
    reason: str = ""


def judge(
    schedule: Schedule,
    settings: FlowSettings,
    past: PastRuns,
    *,
    now: int,
    running: bool,
    unreachable: tuple[str, ...] = (),
    waits_for: str = "",
) -> ScheduleDecision:
    """Return whether the task is due.

    - `now`: epoch seconds.
    - `unreachable`: names of clusters that do not respond.
    - `waits_for`: what a person has to do first, as a sentence.
    """
    interval = schedule.interval_s(settings)
    slot = now - now % interval
    if not schedule.is_on(settings):
        key = next(key.name for key in KEYS.values() if key.field == schedule.switch)
        return ScheduleDecision(due=False, slot=slot, next_at=None, reason=f"{key} is false.")
    if waits_for:
        return ScheduleDecision(due=False, slot=slot, next_at=None, reason=waits_for)
    if not running and not schedule.at_rest:
        reason = "The flow is stopped or paused, and so are its sync tasks."
        return ScheduleDecision(due=False, slot=slot, next_at=None, reason=reason)
    if unreachable:
        verb = "does" if len(unreachable) == 1 else "do"
        reason = (
            f"{' and '.join(unreachable)} {verb} not respond; it runs once as soon as that changes."
        )
        return ScheduleDecision(due=False, slot=slot, next_at=None, reason=reason)
    if past.runs:
        return ScheduleDecision(
            due=False, slot=slot, next_at=slot + interval, reason="It is running."
        )
    if past.slot is not None and past.slot >= slot:
        return ScheduleDecision(due=False, slot=slot, next_at=past.slot + interval)
    return ScheduleDecision(due=True, slot=slot, next_at=now)


def total(before: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
    """Add the counts of one more run to a roll-up."""
    return {name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}}
