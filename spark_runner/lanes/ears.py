"""A slice's waiting: until something comes from either side, or something else has to be done."""

from __future__ import annotations

from spark_runner.lanes.feeder import Feeder
from spark_runner.lanes.homes import Homes
from spark_runner.lanes.intake import Intake
from spark_runner.lanes.outlet import Outlet
from spark_runner.lanes.pace import Pace
from spark_runner.lanes.pipe import Pipe
from spark_runner.lanes.sockets import End, Sockets

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
