"""Which periodic duty of a flow is due: from its settings, its past and the time that is handed in.

Time is cut into slots as long as the interval; a slot is named by the second at which it begins. A
duty is due when its last slot is an earlier one, so whatever was missed is made up by one run.
"""

from __future__ import annotations

import dataclasses

from mirrors.domain.settings.table import KEYS
from mirrors.domain.specs import FlowSettings, FlowSpec

# Duties at least as frequent as this leave roll-ups and failures, not a row for each run.
FREQUENT_S = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class DutyContext:
    """What a duty is told: the flow, the time (epoch ms), and how long it may ask Kafka in all."""

    flow_id: int
    spec: FlowSpec
    now: int
    deadline_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a duty did: how many of what, and a sentence for each thing it left undone."""

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A duty by its name; `switch` and `interval` name fields of FlowSettings.

    Without a switch it is always on; without an interval it runs every `every_s` seconds.
    `at_rest`: also while the flow rests or its source is away, since it asks the target alone.
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
class Past:
    """What is known of a duty's runs: the last slot that was taken, and whether one runs now."""

    slot: int | None = None
    runs: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether a duty is due in `slot`, when it is next, and why it is not due now."""

    due: bool
    slot: int
    next_at: int | None
    reason: str = ""


def judge(
    schedule: Schedule,
    settings: FlowSettings,
    past: Past,
    *,
    now: int,
    running: bool,
    unreachable: tuple[str, ...] = (),
    waits_for: str = "",
) -> Judgement:
    """`now` is seconds since the epoch; `unreachable` names clusters that do not answer.

    `waits_for` is what a person has to do first, as a sentence.
    """
    interval = schedule.interval_s(settings)
    slot = now - now % interval
    if not schedule.is_on(settings):
        key = next(key.name for key in KEYS.values() if key.field == schedule.switch)
        return Judgement(due=False, slot=slot, next_at=None, reason=f"{key} is false.")
    if waits_for:
        return Judgement(due=False, slot=slot, next_at=None, reason=waits_for)
    if not running and not schedule.at_rest:
        reason = "The flow is not asked to run; duties rest with it."
        return Judgement(due=False, slot=slot, next_at=None, reason=reason)
    if unreachable:
        verb = "does" if len(unreachable) == 1 else "do"
        reason = (
            f"{' and '.join(unreachable)} {verb} not answer; it runs once as soon as that changes."
        )
        return Judgement(due=False, slot=slot, next_at=None, reason=reason)
    if past.runs:
        return Judgement(due=False, slot=slot, next_at=slot + interval, reason="It runs now.")
    if past.slot is not None and past.slot >= slot:
        return Judgement(due=False, slot=slot, next_at=past.slot + interval)
    return Judgement(due=True, slot=slot, next_at=now)


def total(before: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
    """The counts of a roll-up with those of one more run."""
    return {name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}}
