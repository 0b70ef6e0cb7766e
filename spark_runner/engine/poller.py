"""Waits until a source or target broker sends something, or until the next timer."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from spark_runner.engine.commit_timing import CommitTiming
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.engine.source.reader import SourceReader
from spark_runner.engine.speed_meter import SpeedMeter
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.kafka_protocol.tcp_stream import PlainStream
from spark_runner.kafka_protocol.tls_stream import TlsStream

DataConnection = FetchConnection | ProduceConnection


class Selector:
    """`poll()` over the connections; registers only changes."""

    def __init__(self, wake_descriptor: int = -1) -> None:
        """`wake_descriptor` ends the wait when it is readable; -1 for none."""
        self._poller = select.poll()
        self._wake_descriptor = wake_descriptor
        if wake_descriptor >= 0:
            self._poller.register(wake_descriptor, select.POLLIN)
        # The connections of the last call, their streams, and the connection of each descriptor.
        self._connections: list[DataConnection] = []
        self._streams: list[PlainStream | TlsStream] = []
        self._watched: dict[int, DataConnection] = {}

    def wait(self, connections: Sequence[DataConnection], seconds: float) -> list[DataConnection]:
        """The readable connections, target first: its responses free receive buffers."""
        if connections != self._connections:
            self._watch(connections)
        buffered: list[DataConnection] = []
        for connection, stream in zip(connections, self._streams, strict=True):
            if stream.fileno() < 0:
                # Closed by this process, because the cluster no longer lists that broker. Reading
                # raises it.
                return [connection]
            # The stream may have read more from the socket than was requested.
            if stream.pending() and connection.transport.in_flight_requests:
                buffered.append(connection)
        found = self._poller.poll(0 if buffered else max(0.0, seconds) * 1000 + 0.5)
        ready = [self._watched[number] for number, _ in found if number != self._wake_descriptor]
        if buffered:
            # Buffered source data must not delay the target's responses.
            ready += [connection for connection in buffered if connection not in ready]
        if len(ready) > 1:
            ready.sort(key=_target_first)
        return ready

    def _watch(self, connections: Sequence[DataConnection]) -> None:
        """A connection keeps its stream."""
        self._connections = list(connections)
        self._streams = [connection.transport.stream for connection in connections]
        before, self._watched = self._watched, {}
        for connection, stream in zip(connections, self._streams, strict=True):
            if (number := stream.fileno()) >= 0:
                self._watched[number] = connection
        for number in before.keys() - self._watched.keys():
            self._poller.unregister(number)
        for number in self._watched.keys() - before.keys():
            self._poller.register(number, select.POLLIN)


def _target_first(connection: DataConnection) -> bool:
    return isinstance(connection, FetchConnection)


# Orders are checked at least this often.
_LISTEN_S = 0.5
# Asking for what has arrived takes about this long.
_SHORT_S = 20e-6


class Poller:
    """Dispatches what arrives to reader or writer. The first arrival opens a transaction."""

    def __init__(
        self,
        target_leaders: TargetLeaders,
        reader: SourceReader,
        writer: TargetWriter,
        timing: CommitTiming,
        meter: SpeedMeter,
        wake_descriptor: int = -1,
    ) -> None:
        self._target_leaders = target_leaders
        self._reader = reader
        self._writer = writer
        self._timing = timing
        self._meter = meter
        self._selector = Selector(wake_descriptor)

    def wait(self, now: float) -> list[DataConnection]:
        """The connections with something to read; none when a timer is due.

        What was ready at `now` has been sent.
        """
        until = min(
            now + _LISTEN_S,
            self._timing.wakes_at(now),
            self._reader.wakes_at(now),
            self._writer.wakes_at(now),
        )
        connections: list[DataConnection] = [
            *self._target_leaders.connections.values(),
            *self._reader.all_connections(),
        ]
        began = time.monotonic()
        self._meter.sent(began - now)
        ready = self._selector.wait(connections, until - began)
        ended = time.monotonic()
        if ended - began > _SHORT_S:
            self._meter.waited(began, ended)
        return ready

    def handle(self, connection: DataConnection, now: float) -> None:
        """Handle what arrived."""
        if isinstance(connection, ProduceConnection):
            self._read_target(connection, now)
        else:
            self._read_source(connection, now)

    def _read_target(self, connection: ProduceConnection, now: float) -> None:
        if connection.in_flight:
            self._writer.receive(connection, now)
            if not self._timing.is_open:
                self._timing.opened(now)
        else:
            # No request is open: the broker closed an idle connection, which is no outage.
            self._target_leaders.connection_lost(connection, now)

    def _read_source(self, connection: FetchConnection, now: float) -> None:
        if connection.buffer is None:
            self._reader.connection_closed(connection, now)
            return
        self._reader.receive(connection, now)
        self._meter.read(time.monotonic() - now)
        if self._reader.has_quiet_progress and not self._timing.is_open:
            self._timing.opened(now)
            self._reader.has_quiet_progress = False
