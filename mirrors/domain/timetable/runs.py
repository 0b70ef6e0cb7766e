"""When the runs of a flow begin and end, as its settings say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from mirrors.domain.keys.control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.domain.schedules import next_run_ms
from mirrors.domain.timetable.window import Window

_MINUTE_MS = 60_000
_ALL = (SCHEDULE, ZONE, UNTIL, WINDOW)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runs:
    """Times are milliseconds since 1970, handed in."""

    schedule: str | None
    zone: str
    until: str | None
    window: Window | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Of valid settings."""
        schedule, zone, until, minutes = (
            text.strip() if (text := properties.get(key)) is not None else None for key in _ALL
        )
        zone = zone or "UTC"
        window = None
        if schedule is not None and minutes is not None:
            length = int(minutes) * _MINUTE_MS
            window = Window(schedule=schedule, zone=zone, length=length)
        return cls(schedule=schedule, zone=zone, until=until, window=window)

    def begins(self, *, rests_since: int, now: int, ran_since: int | None = None) -> int | None:
        """When the next run of a flow at rest begins; due when it lies behind, None for never.

        Moments that were missed count once, those too that passed during the last run, which
        began at `ran_since`; with a window only while it is open. Without `run.until` a flow
        belongs into every open window; with it, into each one once.
        """
        if self.schedule is None:
            return None
        if self.window is None:
            since = rests_since if ran_since is None else ran_since
            return next_run_ms(self.schedule, since, self.zone)
        after_rest = next_run_ms(self.schedule, rests_since, self.zone)
        had_its_run = self.until is not None and (after_rest is None or after_rest > now)
        if self.window.is_open(now) and not had_its_run:
            return now
        return self.window.opens_after(now)

    def ends(self, *, asked_at: int, insists: bool, now: int) -> int | None:
        """When a run is ended by its window; None without one, or when it never closes.

        `insists`: a person wants it outside the window too, and gets it until the next one closes.
        Who merely puts a flow into service while its window is closed waits for the window.
        """
        if self.window is None:
            return None
        if self.window.is_open(now):
            return self.window.closes_after(now)
        if insists or self.window.is_open(asked_at):
            return self.window.closes_after(asked_at)
        return asked_at

    def catches_up_until(self, *, asked_at: int, now: int) -> int | None:
        """How long a run may be behind by what waited for its window; None where nothing waits.

        Half of the time that it has: who is not done with it by then will hardly be before it
        closes, and while it is open something can be done about it.
        """
        ends = self.ends(asked_at=asked_at, insists=True, now=now)
        return None if ends is None else asked_at + (ends - asked_at) // 2
