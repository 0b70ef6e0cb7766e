"""Broker quotas: which broker throttled this client, and for how long (KIP-13, KIP-219).

A broker responds at once and then mutes the connection for the throttle time. Errors and states
that are late because of that say so. Otherwise a quota looks like an overloaded broker.
"""

from __future__ import annotations

import dataclasses
import threading
import time

from mirrors.domain.errors import KafkaUnavailable

# A throttle that ended this long ago may still be why something is late.
_RECENT_S = 30.0
# Shorter ones make nothing late.
_MIN_S = 0.1
_MAX_ENTRIES = 1000
_CURE = (
    "Raise producer_byte_rate, consumer_byte_rate or request_percentage of this user or client id "
    "(kafka-configs.sh --alter --entity-type users)."
)


@dataclasses.dataclass(frozen=True)
class Throttled:
    """The last response with a throttle time; `at` is in seconds of time.monotonic()."""

    broker: str
    seconds: float
    at: float


class ThrottleHistory:
    """The last throttle of each cluster, by its alias. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, Throttled] = {}

    def record(self, alias: str, broker: str, milliseconds: float) -> None:
        if milliseconds < _MIN_S * 1000:
            return
        with self._lock:
            self._last.pop(alias, None)
            self._last[alias] = Throttled(broker, milliseconds / 1000, time.monotonic())
            if len(self._last) > _MAX_ENTRIES:
                del self._last[next(iter(self._last))]

    def recent(self, alias: str, within_s: float = _RECENT_S) -> Throttled | None:
        """The last throttle, if it lasts or ended at most `within_s` seconds ago."""
        with self._lock:
            last = self._last.get(alias)
        if last is None or time.monotonic() > last.at + last.seconds + within_s:
            return None
        return last

    def clear(self) -> None:
        with self._lock:
            self._last.clear()


THROTTLES = ThrottleHistory()


def describe_quota(alias: str) -> str:
    """A sentence for something late; empty if no quota throttled this client recently."""
    last = THROTTLES.recent(alias)
    if last is None:
        return ""
    return (
        f"A quota on cluster {alias} throttles this client: broker {last.broker} made it wait for "
        f"{last.seconds:.1f} s. {_CURE}"
    )


def describe_lateness(alias: str, within_s: float) -> str:
    """The same for something slow in progress. The text changes only when the throttling does."""
    if THROTTLES.recent(alias, within_s) is None:
        return ""
    return f"A quota on cluster {alias} throttles this client: the lag is due to that. {_CURE}"


def timeout_error(alias: str, sentence: str) -> KafkaUnavailable:
    """The error for a timeout, with the quota that may have caused it."""
    return KafkaUnavailable(f"{sentence} {describe_quota(alias)}".rstrip(), code="timeout")
