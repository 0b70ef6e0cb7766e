"""A window: open from each moment of a schedule on, for so long.

A. A window is [opens, closes): at the moment when it closes it is closed.
B. Its length is time that passes: on a night when clocks change it closes an hour later or earlier
   by the wall. When it opens is read by the wall, as `mirrors.domain.schedules` says.
C. Windows that touch or overlap are one.
"""

from __future__ import annotations

import dataclasses

from mirrors.domain.schedules import latest_run_ms, next_run_ms

# So many windows without a gap between them have no end that anybody waits for.
_MOST = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Moments and the length are milliseconds."""

    schedule: str
    zone: str
    length: int

    def is_open(self, now: int) -> bool:
        return self._opened(now - self.length, now) is not None

    def opens_after(self, now: int) -> int | None:
        """The next moment of the schedule: the next window, when none is open now; or None."""
        return next_run_ms(self.schedule, now, self.zone)

    def closes_after(self, now: int) -> int | None:
        """When the window that is open now closes, or else the next one; None for never."""
        opened = self._opened(now - self.length, now)
        if opened is None:
            opened = self.opens_after(now)
        if opened is None:
            return None
        for _ in range(_MOST):
            closes = opened + self.length
            another = self._opened(opened, closes)
            if another is None:
                return closes
            opened = another
        return None

    def _opened(self, since: int, now: int) -> int | None:
        return latest_run_ms(self.schedule, since=since, now=now, zone=self.zone)
