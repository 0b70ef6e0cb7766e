"""Cron schedules with five fields, in UTC or in a time zone.

Invariant:
A. Wall times count. A time that a clock change skips is run right after it; a time that occurs
   twice is run only the first time.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import zoneinfo

from croniter import CroniterBadDateError, croniter

_SECOND_MS = 1000
_MINUTE = dt.timedelta(minutes=1)
# Croniter draws another R at each call; H needs a name to draw from.
_DRAWN = re.compile(r"(?<![a-z])[hr](?![a-z])", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Cron:
    """Parser of a schedule."""

    description = "five cron fields (minute, hour, day, month, weekday), such as 30 2 * * *"

    def parse(self, text: str) -> str:
        """Return the normalized schedule. Raises ValueError; its text follows the setting."""
        fields = text.split()
        schedule = " ".join(fields)
        if _DRAWN.search(schedule):
            raise ValueError(f"must give exact times; R and H are random in {text!r}")
        if len(fields) != 5 or not croniter.is_valid(schedule):
            raise ValueError(f"must be {self.description}, not {text!r}")
        # From 1970 on each day of a year has met each weekday within the years that are searched.
        if next_run_ms(schedule, 0) is None:
            raise ValueError(f"never runs: no day matches {schedule!r}")
        return schedule


@dataclasses.dataclass(frozen=True)
class Zone:
    """Parser of a time zone's name."""

    description = "an IANA time zone, such as UTC, Europe/Berlin or America/New_York"

    def parse(self, text: str) -> str:
        zone_of(text.strip())
        return text.strip()


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone of that name. Raises ValueError with a sentence."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"must be {Zone.description}, not {name!r}") from None


def next_run_ms(schedule: str, after: int, zone: str = "UTC") -> int | None:
    """Return the first run of the schedule after `after`, both in epoch ms.

    None if there is none: `Cron` rejects such a schedule, but an older version accepted it.
    """
    clock = zone_of(zone)
    walls = croniter(schedule, _wall(after, clock).replace(tzinfo=None))
    try:
        while True:
            found = _moment(walls.get_next(dt.datetime), clock)
            if found > after:
                return found
    except CroniterBadDateError:
        return None


def latest_run_ms(schedule: str, *, since: int, now: int, zone: str = "UTC") -> int | None:
    """Return the last run of the schedule after `since`, up to `now`: missed runs count once.

    None if there is none.
    """
    clock = zone_of(zone)
    wall = _wall(now, clock)
    # In an hour that comes twice, later wall times of the first pass are behind us too.
    ahead = dt.timedelta(hours=1) if wall.fold else dt.timedelta()
    walls = croniter(schedule, wall.replace(tzinfo=None, fold=0) + ahead + _MINUTE)
    try:
        while True:
            found = _moment(walls.get_prev(dt.datetime), clock)
            if found <= since:
                return None
            if found <= now:
                return found
    except CroniterBadDateError:
        return None


def shown(moment: int) -> str:
    return f"{dt.datetime.fromtimestamp(moment / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _wall(moment: int, clock: zoneinfo.ZoneInfo) -> dt.datetime:
    return dt.datetime.fromtimestamp(moment // _SECOND_MS, clock)


def _moment(wall: dt.datetime, clock: zoneinfo.ZoneInfo) -> int:
    return int(wall.replace(tzinfo=clock, fold=0).timestamp()) * _SECOND_MS
