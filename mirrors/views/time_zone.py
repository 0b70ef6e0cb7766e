"""The time zone in which the pages of one request show times: the person's, otherwise UTC.

Files, REST and forms stay in UTC, so Django's own time zone is not changed.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo

_zone: ContextVar[tzinfo] = ContextVar("zone of the person", default=UTC)


def zone_named(name: str) -> tzinfo:
    """The zone; UTC if this machine's time zone database has none of that name."""
    try:
        return UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    # OSError: a name that is too long for a file.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


@contextmanager
def times_in(name: str) -> Iterator[None]:
    """Show times in this zone while the block runs."""
    token = _zone.set(zone_named(name))
    try:
        yield
    finally:
        _zone.reset(token)


def local(moment: datetime) -> datetime:
    """The moment in the person's zone."""
    return moment.astimezone(_zone.get())


def zone_names() -> list[str]:
    """UTC first, then all zones of this machine by name."""
    return ["UTC", *sorted(name for name in zoneinfo.available_timezones() if "/" in name)]
