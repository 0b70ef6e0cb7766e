"""How many bytes fly to one target broker at once: pure. A quota makes it small (KIP-219), and so
does a slow connection.

A broker takes a whole request, answers, and is then deaf for as long as the client's quota is
overdrawn: what flies behind waits all that time, a commit with it, and the broker's own word is
that this is no outage. So what flies begins small, grows by a quarter of what was answered at
once, and is halved by each answer that makes us wait for long: a broker lets ten seconds' worth
pass before it throttles, so by then two and a half more may be on their way. Speed is the quota's
either way.

Without a quota it stops growing where an answer takes half a second longer than the quickest did,
and shrinks as it grew from a second on: what flies then waits for the connection, not at the
broker, and more of it only makes commits and stops late.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = 512 << 10
_LEAST: Final = 16 << 10
# A commit waits for what flies: it may take this long, and a process that is stopped has 3 s.
_LONG_S: Final = 1.0


class Window:
    """Of one connection."""

    __slots__ = ("_flying", "_most", "_quickest_s", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._flying = 0
        self._quickest_s = float("inf")
        self.size = min(_FIRST, most)

    @property
    def room(self) -> int:
        """What may still be sent; when nothing flies a request may go, however large a batch is."""
        return self.size - self._flying

    def sent(self, size: int) -> None:
        self._flying += size

    def answered(self, size: int, throttle_s: float, took_s: float) -> None:
        """One request is answered, so long after it was sent; the broker is deaf for a time."""
        self._flying -= size
        self._quickest_s = min(self._quickest_s, took_s)
        waited_s = took_s - self._quickest_s
        if throttle_s > _LONG_S:
            self.size = max(self.size // 2, _LEAST)
        elif throttle_s > 0:
            return
        elif waited_s <= _LONG_S / 2:
            self.size = min(self.size + size // 4, self._most)
        elif waited_s > _LONG_S:
            self.size = max(self.size - size // 4, min(self.size, _FIRST))
