"""Questions in the midst of copying: a slice waits for each answer, with all of its partitions.

So a broker that does not answer soon is not asked again at once, for no other partition either.
Behind a long line a login alone takes a while: each time it is given twice as long, up to a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mirrors.domain.errors import UnderstudyError

T = TypeVar("T")

LOOK_S = 1.0
MOST_S = 5.0
# Of a slice's time, that may be spent on waiting in vain.
SHARE = 0.1


class Looks:
    """Of one slice at one cluster. Whom is asked is told by a number."""

    def __init__(self) -> None:
        self._patience: dict[int, float] = {}
        self._not_before: dict[int, float] = {}

    def at(self, node: int, look: Callable[[float], T]) -> T | None:
        """What `look` finds by the deadline that it is given (monotonic); None: ask again later."""
        began = time.monotonic()
        if began < self._not_before.get(node, 0.0):
            return None
        patience = self._patience.get(node, LOOK_S)
        try:
            found = look(began + patience)
        except UnderstudyError:
            spent = time.monotonic() - began
            if spent > patience / 2:
                self._patience[node] = min(2 * patience, MOST_S)
            self._not_before[node] = began + spent + spent / SHARE
            return None
        self._patience.pop(node, None)
        return found
