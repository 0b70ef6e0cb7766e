"""Transaction version 1: the partitions that a transaction was told of, before it is written to."""

from __future__ import annotations

import time
from collections.abc import Iterable

from spark_runner.lanes.track import Track
from spark_runner.wire.transactions import Identity


class Members:
    """Of the transaction that is open; from version 2 on a produce adds its partition by itself."""

    def __init__(self, identity: Identity, *, request_s: float) -> None:
        self._identity = identity
        self._request_s = request_s
        self._added: set[Track] = set()

    def add(self, tracks: Iterable[Track]) -> list[Track]:
        """Add those that are not in yet; returns those whose partition the broker does not know."""
        new = {(track.remote_topic, track.partition): track for track in tracks}
        new = {place: track for place, track in new.items() if track not in self._added}
        if not new:
            return []
        unknown = self._identity.add(new, time.monotonic() + self._request_s)
        self._added.update(track for place, track in new.items() if place not in unknown)
        return [track for place, track in new.items() if place in unknown]

    def clear(self) -> None:
        """Another transaction begins with none."""
        self._added.clear()
