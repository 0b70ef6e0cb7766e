"""What is left of a deadline, for one call to Kafka after another."""

from __future__ import annotations

import math
import time

# A cluster that does not answer by then is left: a worker has more to do.
CALL_S = 15.0


class Budget:
    """One deadline for many calls; none of them gets more than `call_s` seconds of it."""

    def __init__(self, seconds: float, *, call_s: float = math.inf) -> None:
        self._until = time.monotonic() + seconds
        self._call_s = call_s

    @property
    def left_s(self) -> float:
        """Half a second at the least: a call that is made at all can be answered."""
        return min(self._call_s, max(0.5, self._until - time.monotonic()))
