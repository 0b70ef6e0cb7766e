"""What is left of a deadline, for one call to Kafka after another."""

from __future__ import annotations

import time

# A cluster that does not answer by then is left: a worker has more to do.
CALL_S = 15.0


class Clock:
    """None of the calls gets all of it."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return min(CALL_S, max(0.5, self._until - time.monotonic()))
