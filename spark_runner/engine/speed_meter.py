"""Measures what the copy loop waits for: a few clock readings in each turn, none per record.

A wait has one reason, found after it from the state that the loop left behind: nothing else changes
that state. What is not a wait or a commit is busy time. `model/speed_limit.py` decides from the
totals.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mirrors.domain.flows.speed_limits import SpeedLimit
from spark_runner.engine.model import speed_limit as kinds
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.speed_limit import LimitHistory, LoopTimes, SideFigures
from spark_runner.engine.source.reader import SourceReader
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.writer import TargetWriter

# Shorter reads and sends do not block.
_LONG_S: Final = 0.001
# A commit of a near target waits this long for the last responses.
_DRAIN_S: Final = 0.02
_SCHEDULING: Final = Path("/proc/thread-self/schedstat")
_NOTE_S: Final = 1.0


class SpeedMeter:
    """For the thread of the loop. Times are seconds of the monotonic clock."""

    def __init__(
        self,
        target_leaders: TargetLeaders,
        reader: SourceReader,
        writer: TargetWriter,
        buffers: ReceiveBuffers,
    ) -> None:
        self._target_leaders, self._reader = target_leaders, reader
        self._writer, self._buffers = writer, buffers
        self._seconds = [0.0] * kinds.KINDS
        self._reading_s = self._sending_s = 0.0
        self._history = LimitHistory()
        self._noted_at = float("-inf")
        self._source, self._target = SideFigures(), SideFigures()

    # -- what the loop reports

    def waited(self, began: float, ended: float) -> None:
        """The loop waited for either cluster or a timer."""
        self._seconds[self._reason(began)] += ended - began

    def sent(self, seconds: float) -> None:
        """Requests were sent in this time."""
        if seconds > _LONG_S:
            self._sending_s += seconds

    def read(self, seconds: float) -> None:
        """A reply of the source, or a part of it, was read in this time."""
        if seconds > _LONG_S:
            self._reading_s += seconds

    def committed(self, began: float, drained: float, ended: float) -> None:
        """A commit that had all responses at `drained`.

        Beyond one round trip, bytes were still on their way until then.
        """
        round_trips = 2 * self._target_leaders.cluster.fastest_request_s
        queued = max(0.0, drained - began - max(_DRAIN_S, round_trips))
        far = self._target_leaders.tuning.is_far
        self._seconds[kinds.TARGET_LINK if far else kinds.TARGET_REQUESTS] += queued
        self._seconds[kinds.COMMIT] += ended - began - queued

    def restart(self) -> None:
        """The loop begins, at the last commit. What was before says nothing about it."""
        self._history = LimitHistory()
        self._noted_at = float("-inf")

    # -- the reason of a wait

    def _reason(self, now: float) -> int:
        is_sending = False
        for connection in self._target_leaders.connections.values():
            is_sending = is_sending or bool(connection.in_flight)
            if connection.ready:
                reason = self._target_reason(connection, now)
                if reason != kinds.OTHER:
                    return reason
        return self._source_reason(now, is_sending=is_sending)

    def _target_reason(self, connection: ProduceConnection, now: float) -> int:
        """Why a connection does not send what is ready."""
        if now < self._writer.marker_until:
            return kinds.COMMIT
        if now < connection.transport.quiet_until:
            return kinds.QUOTA
        if not connection.in_flight:
            return kinds.OTHER
        if connection.is_blocked:
            return kinds.TARGET_LINK
        if connection.has_most_requests:
            full = kinds.TARGET_REQUESTS
        elif connection.room <= 0:
            full = kinds.TARGET_BYTES
        elif self._writer.is_confirmed(next(iter(connection.ready))):
            full = kinds.TARGET_BATCHES
        else:
            # The first batch of a producer epoch is sent alone.
            return kinds.COMMIT
        return kinds.TARGET_LINK if connection.is_slow else full

    def _source_reason(self, now: float, *, is_sending: bool) -> int:
        has_request = is_behind = False
        for connection in self._reader.connections():
            if connection.buffer is not None:
                if connection.is_receiving:
                    return kinds.SOURCE_LINK
                has_request = True
                is_behind = is_behind or connection.is_behind
            elif now < connection.transport.quiet_until:
                return kinds.QUOTA
            elif connection.members and now >= connection.retry_at:
                if now < self._reader.limited_until:
                    return kinds.QUOTA
                if is_sending and not self._buffers.has_free:
                    return kinds.TARGET_MEMORY
        if is_behind:
            return kinds.SOURCE_WINDOW
        return kinds.IDLE if has_request else kinds.OTHER

    # -- the result

    def limit(self, now: float, partitions: Iterable[Partition]) -> SpeedLimit | None:
        """What limited the slice lately. Measures again after a second at the earliest."""
        if now - self._noted_at >= _NOTE_S:
            self._noted_at = now
            self._history.note(self._totals(now))
            self._source, self._target = self._source_figures(), self._target_figures()
        return self._history.decide(
            is_behind=self._reader.is_behind(partitions), source=self._source, target=self._target
        )

    def _totals(self, now: float) -> LoopTimes:
        ready_s = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            ready_s = int(_SCHEDULING.read_text().split()[1]) / 1e9
        return LoopTimes(
            at=now,
            seconds=tuple(self._seconds),
            reading_s=self._reading_s,
            sending_s=self._sending_s,
            processor_s=time.thread_time(),
            ready_s=ready_s,
        )

    def _source_figures(self) -> SideFigures:
        connections = list(self._reader.connections())
        return SideFigures(
            in_flight_bytes=sum(connection.asked_bytes for connection in connections),
            window_bytes=sum(connection.most_bytes for connection in connections),
            response_s=max((connection.took_s for connection in connections), default=0.0),
        )

    def _target_figures(self) -> SideFigures:
        connections = list(self._target_leaders.connections.values())
        return SideFigures(
            in_flight_bytes=sum(connection.take_peak_bytes() for connection in connections),
            window_bytes=sum(connection.window_bytes for connection in connections),
            response_s=max((connection.took_s for connection in connections), default=0.0),
        )
