"""Wait for the first of many connections to have something to read."""

from __future__ import annotations

import select
from collections.abc import Sequence

from spark_runner.lanes.feeder import Feeder
from spark_runner.lanes.pipe import Pipe
from spark_runner.wire.stream import PlainStream
from spark_runner.wire.tls import TlsStream

End = Feeder | Pipe


class Sockets:
    """poll(), told only of what has changed."""

    def __init__(self) -> None:
        self._poller = select.poll()
        # The ends of the last time, their streams, and who has which number.
        self._ends: list[End] = []
        self._streams: list[PlainStream | TlsStream] = []
        self._watched: dict[int, End] = {}

    def wait(self, ends: Sequence[End], seconds: float) -> list[End]:
        """Those with something to read; target first, for it frees what the source needs."""
        if ends != self._ends:
            self._watch(ends)
        at_hand: list[End] = []
        for end, stream in zip(ends, self._streams, strict=True):
            if stream.fileno() < 0:
                # By ourselves, when the cluster no longer named that broker: reading says so.
                return [end]
            # More may have been taken from the socket than was asked for.
            if stream.pending() and end.link.awaited:
                at_hand.append(end)
        found = self._poller.poll(0 if at_hand else max(0.0, seconds) * 1000 + 0.5)
        ready = [self._watched[number] for number, _ in found]
        if at_hand:
            # What a source has sent ahead must not keep the target's answers waiting.
            ready += [end for end in at_hand if end not in ready]
        if len(ready) > 1:
            ready.sort(key=_target_first)
        return ready

    def _watch(self, ends: Sequence[End]) -> None:
        """An end's stream is the same for as long as there is the end."""
        self._ends = list(ends)
        self._streams = [end.link.stream for end in ends]
        before, self._watched = self._watched, {}
        for end, stream in zip(ends, self._streams, strict=True):
            if (number := stream.fileno()) >= 0:
                self._watched[number] = end
        for number in before.keys() - self._watched.keys():
            self._poller.unregister(number)
        for number in self._watched.keys() - before.keys():
            self._poller.register(number, select.POLLIN)


def _target_first(end: End) -> bool:
    return isinstance(end, Feeder)
