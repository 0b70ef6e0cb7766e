"""When a scheduled run begins: five fields of cron, in UTC."""

from __future__ import annotations

import dataclasses
import datetime as dt

from croniter import croniter

_SECOND_MS = 1000


@dataclasses.dataclass(frozen=True)
class Cron:
    """The text of a schedule, read."""

    words = "five fields of cron (minute, hour, day, month, weekday) in UTC, such as 30 2 * * *"

    def parse(self, text: str) -> str:
        fields = text.split()
        if len(fields) != 5 or not croniter.is_valid(" ".join(fields)):
            raise ValueError(f"must be {self.words}, not {text!r}")
        return " ".join(fields)


def next_run_ms(schedule: str, after: int) -> int:
    """The first moment of the schedule behind `after`, both in milliseconds since 1970."""
    moment = dt.datetime.fromtimestamp(after // _SECOND_MS, dt.UTC)
    found: dt.datetime = croniter(schedule, moment).get_next(dt.datetime)
    return int(found.timestamp()) * _SECOND_MS


def is_due(schedule: str, *, rests_since: int, now: int) -> bool:
    """Whether a moment of the schedule has passed since the last run ended; several count once."""
    return next_run_ms(schedule, rests_since) <= now


def shown(moment: int) -> str:
    return f"{dt.datetime.fromtimestamp(moment / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"
