"""A cluster that answers nothing: waited for, but not for ever."""

from __future__ import annotations

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.throttles import late

GIVE_UP_AFTER_S = 30.0


class Outage:
    """One per side. A single answer ends it, whichever broker it is from."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._since: float | None = None

    def note(self, now: float, error: UnderstudyError | None) -> None:
        """Something failed; raises when nothing has worked for too long."""
        if self._since is None:
            self._since = now
        elif now - self._since > GIVE_UP_AFTER_S:
            words = f"Cluster {self._alias}: no answer for {GIVE_UP_AFTER_S:.0f} s."
            raise error or late(self._alias, words)

    def over(self) -> None:
        self._since = None
