"""Time: conversion between rows (datetime, UTC) and rules (milliseconds); deadlines of calls."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: datetime) -> int:
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


def moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


# A cluster that does not respond by then is skipped: the worker has other work.
CALL_S = 15.0


class Budget:
    """One deadline for many calls; each call gets at most `call_s` seconds of it."""

    def __init__(self, seconds: float, *, call_s: float = math.inf) -> None:
        self._until = time.monotonic() + seconds
        self._call_s = call_s

    @property
    def left_s(self) -> float:
        """At least half a second, so that a call that is made can succeed."""
        return min(self._call_s, max(0.5, self._until - time.monotonic()))
