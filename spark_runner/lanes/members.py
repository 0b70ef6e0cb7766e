"""The open transaction: what it was told of (version 1), and whether it is open for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable

from mirrors.kafka.codes import COORDINATOR_MOVING, Code
from mirrors.kafka.producers.identity import Identity
from spark_runner.lanes.track import Track

# A batch that waits may land within this: far less than brokers leave a transaction open.
OPEN_S = 30.0
# The coordinator did not take the partition in; with 51 it still ends the transaction before.
_NOT_IN = COORDINATOR_MOVING | {Code.CONCURRENT_TRANSACTIONS}


class Members:
    """Version 1 is told of partitions; from version 2 on a produce adds its own by itself."""

    def __init__(self, identity: Identity, *, request_s: float) -> None:
        self._identity = identity
        self._request_s = request_s
        self._added: set[Track] = set()
        # Whether anything was sent since the last one ended.
        self.is_begun = False
        # When a batch was first refused: its partition may be in although nothing has landed.
        self._refused_at = 0.0

    def add(self, tracks: Iterable[Track]) -> dict[Track, int]:
        """Add those that are not in yet; returns those left out, with the broker's number."""
        new = {(track.remote_topic, track.partition): track for track in tracks}
        new = {place: track for place, track in new.items() if track not in self._added}
        if not new:
            return {}
        left_out = self._identity.add(new, time.monotonic() + self._request_s)
        self._added.update(track for place, track in new.items() if place not in left_out)
        return {new[place]: number for place, number in left_out.items()}

    def clear(self) -> None:
        """Another transaction begins with none."""
        self._added.clear()
        self._refused_at = 0.0
        self.is_begun = False

    def refused(self, number: int, now: float) -> None:
        """The target did not take a batch of this transaction."""
        if not self._refused_at and number not in _NOT_IN:
            self._refused_at = now

    def is_left_open(self, tracks: Iterable[Track], now: float) -> bool:
        """Asked when nothing flies and nothing has landed: whether to end it all the same.

        Brokers end what is open for too long, and then take us for one who was replaced. While a
        batch waits, that is put off: it may land soon, and until its partition has replicas again
        no marker can be written there, so the next transaction of the whole slice would wait.
        """
        if not self._refused_at:
            return False
        waits = any(track.held_since and track.error is None for track in tracks)
        return not waits or now - self._refused_at > OPEN_S
