"""A slice's waiting: until something comes from either side, or something else has to be done."""

from __future__ import annotations

import select
from collections.abc import Sequence

from spark_runner.engine.commit_timing import Pace
from spark_runner.engine.source.fetch_connection import Feeder
from spark_runner.engine.source.reader import Intake
from spark_runner.engine.target.leaders import Homes
from spark_runner.engine.target.produce_connection import Pipe
from spark_runner.engine.target.writer import Outlet
from spark_runner.kafka_protocol.tcp_stream import PlainStream
from spark_runner.kafka_protocol.tls_stream import TlsStream

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


# Orders are asked for at least so often.
_LISTEN_S = 0.5


class Ears:
    """Hears both ends, and tells whose matter it is; the first thing heard opens a transaction."""

    def __init__(self, homes: Homes, intake: Intake, outlet: Outlet, pace: Pace) -> None:
        self._homes = homes
        self._intake = intake
        self._outlet = outlet
        self._pace = pace
        self._sockets = Sockets()

    def wait(self, now: float) -> list[End]:
        """Those that have something to read; none when it is time for something else."""
        until = min(
            now + _LISTEN_S,
            self._pace.wakes_at(now),
            self._intake.wakes_at(now),
            self._outlet.wakes_at(now),
        )
        ends: list[End] = [*self._homes.pipes.values(), *self._intake.feeders()]
        return self._sockets.wait(ends, until - now)

    def hear(self, end: End, now: float) -> None:
        """Take what has come."""
        if isinstance(end, Pipe):
            self._from_target(end, now)
        else:
            self._from_source(end, now)

    def _from_target(self, pipe: Pipe, now: float) -> None:
        if pipe.flights:
            self._outlet.receive(pipe, now)
            if not self._pace.is_open:
                self._pace.opened(now)
        else:
            # Nothing was asked: the broker has closed an idle connection, which is no outage.
            self._homes.lost(pipe, now)

    def _from_source(self, feeder: Feeder, now: float) -> None:
        if feeder.arena is None:
            self._intake.closed(feeder, now)
            return
        self._intake.receive(feeder, now)
        if self._intake.moves_quietly and not self._pace.is_open:
            self._pace.opened(now)
            self._intake.moves_quietly = False
