"""When a scheduled run begins: five fields of cron, in UTC or by the clocks of a time zone.

A. Wall times count. One that a change of clocks skips is run right after it; one that comes twice
   is run the first time only.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import zoneinfo

from croniter import croniter

_SECOND_MS = 1000
_MINUTE = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True)
class Cron:
    """The text of a schedule, read."""

    words = "five fields of cron (minute, hour, day, month, weekday), such as 30 2 * * *"

    def parse(self, text: str) -> str:
        fields = text.split()
        if len(fields) != 5 or not croniter.is_valid(" ".join(fields)):
            raise ValueError(f"must be {self.words}, not {text!r}")
        return " ".join(fields)


@dataclasses.dataclass(frozen=True)
class Zone:
    """The name of a time zone, read."""

    words = "a time zone of the IANA list, such as UTC, Europe/Berlin or America/New_York"

    def parse(self, text: str) -> str:
        zone_of(text.strip())
        return text.strip()


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of that name, or ValueError with a sentence."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"must be {Zone.words}, not {name!r}") from None


def next_run_ms(schedule: str, after: int, zone: str = "UTC") -> int:
    """The first moment of the schedule behind `after`, both in milliseconds since 1970."""
    clock = zone_of(zone)
    walls = croniter(schedule, _wall(after, clock).replace(tzinfo=None))
    while True:
        found = _moment(walls.get_next(dt.datetime), clock)
        if found > after:
            return found


def latest_run_ms(schedule: str, *, since: int, now: int, zone: str = "UTC") -> int | None:
    """The last moment of the schedule behind `since`, up to `now`: missed ones count once."""
    clock = zone_of(zone)
    wall = _wall(now, clock)
    # In an hour that comes twice, later wall times of the first pass are behind us too.
    ahead = dt.timedelta(hours=1) if wall.fold else dt.timedelta()
    walls = croniter(schedule, wall.replace(tzinfo=None, fold=0) + ahead + _MINUTE)
    while True:
        found = _moment(walls.get_prev(dt.datetime), clock)
        if found <= since:
            return None
        if found <= now:
            return found


def shown(moment: int) -> str:
    return f"{dt.datetime.fromtimestamp(moment / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _wall(moment: int, clock: zoneinfo.ZoneInfo) -> dt.datetime:
    return dt.datetime.fromtimestamp(moment // _SECOND_MS, clock)


def _moment(wall: dt.datetime, clock: zoneinfo.ZoneInfo) -> int:
    return int(wall.replace(tzinfo=clock, fold=0).timestamp()) * _SECOND_MS
