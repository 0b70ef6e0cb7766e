"""Retries with backoff, up to a deadline."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from mirrors.domain.errors import KafkaUnavailable

T = TypeVar("T")

_BACKOFF_S = (0.05, 0.1, 0.2, 0.4, 0.8)


class RetryBackoff:
    """Waits longer each time, and never past the deadline."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._waits = itertools.chain(_BACKOFF_S, itertools.repeat(_BACKOFF_S[-1]))

    def wait(self) -> bool:
        """False when there is no time for another try."""
        left = self.deadline - time.monotonic()
        pause = next(self._waits)
        if left <= pause:
            return False
        time.sleep(pause)
        return True


def retry_until_available(attempt: Callable[[], T], deadline: float) -> T:
    """Return the result of `attempt`; retry with backoff while it raises KafkaUnavailable.

    Raises the last KafkaUnavailable when the deadline leaves no time for another attempt.
    """
    backoff = RetryBackoff(deadline)
    while True:
        try:
            return attempt()
        except KafkaUnavailable:
            if not backoff.wait():
                raise
