"""Wait for the first of many connections to have something to read."""

from __future__ import annotations

import select
from collections.abc import Iterable

from spark_runner.lanes.feeder import Feeder
from spark_runner.lanes.pipe import Pipe

End = Feeder | Pipe


class Sockets:
    """poll(), told only of what has changed."""

    def __init__(self) -> None:
        self._poller = select.poll()
        self._watched: dict[int, End] = {}

    def wait(self, ends: Iterable[End], seconds: float) -> list[End]:
        """Those with something to read; target first, for it frees what the source needs."""
        wanted = {end.link.fileno(): end for end in ends}
        if (closed := wanted.get(-1)) is not None:
            # By ourselves, when the cluster no longer named that broker: reading says so.
            return [closed]
        if wanted != self._watched:
            for number in self._watched.keys() - wanted.keys():
                self._poller.unregister(number)
            for number in wanted.keys() - self._watched.keys():
                self._poller.register(number, select.POLLIN)
            self._watched = wanted
        # More may have been taken from the socket than was asked for.
        at_hand = [end for end in wanted.values() if end.link.pending() and end.link.awaited]
        if at_hand:
            return at_hand
        found = self._poller.poll(max(0.0, seconds) * 1000 + 0.5)
        ready = [wanted[number] for number, _ in found]
        if len(ready) > 1:
            ready.sort(key=_target_first)
        return ready


def _target_first(end: End) -> bool:
    return isinstance(end, Feeder)
