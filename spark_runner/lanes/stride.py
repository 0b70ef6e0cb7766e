"""How much to ask one source broker for at once: pure; only a slow connection makes it small.

A reply is read in parts of 4 MB. Until a part is there nothing else is done: no commit, no order
heard; and what is not there in time is given up with the connection. So what is asked for begins
small, doubles while replies are there at once, and shrinks to what comes in half a second. On a
fast network the full size is reached with the sixth reply.
"""

from __future__ import annotations

_FIRST = 256 << 10
# A reply of less says nothing of the connection, and costs as much as one of that size.
_LEAST = 64 << 10
_LONG_S = 0.5


class Stride:
    """Of one connection; a new one begins anew, for the old one may have been too slow."""

    __slots__ = ("_most", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(_FIRST, most)

    def came(self, size: int, seconds: float) -> None:
        """A reply of so many bytes was waited for so long once it had begun to come."""
        if size < _LEAST:
            return
        if seconds > _LONG_S:
            self.size = max(min(self.size, int(size * _LONG_S / seconds)), min(_LEAST, self._most))
        elif seconds <= _LONG_S / 2 and 2 * size >= self.size:
            self.size = min(2 * self.size, self._most)
