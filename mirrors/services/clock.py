"""Moments as rows keep them (datetime, UTC) and as the rules take them (milliseconds)."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: datetime) -> int:
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


def moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


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
