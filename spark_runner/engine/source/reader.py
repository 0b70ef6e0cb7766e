"""The source side of a slice: fetch sessions, each with one request in flight.

The next request is sent once the headers of a reply are scanned and a buffer is free. So the source
works while the target writes. `leaders.py` knows which broker leads which partition; `overlap.py`
fetches live records of a distant source in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.engine.batches.header_scan import STOP_INSIDE_BATCH, scan
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer, ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.source.fetch_connection import FetchConnection, FetchLimits
from spark_runner.engine.source.leaders import SourceLeaders
from spark_runner.engine.source.overlap import OverlappingFetches, trim
from spark_runner.engine.source.replicated_filter import FetchedBatches, ReplicatedFilter
from spark_runner.engine.source.throttle import Throttle
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.fetch import READ_COMMITTED, PartitionData

# Half of the first wait for records while the target catches up in another partition.
_SHORT_WAIT_MS: Final = 4


class SourceReader:
    """All fetch connections of a slice.

    `offer` receives partitions that have something to send, `stop` those that cannot continue.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        partitions: Iterable[Partition],
        buffers: ReceiveBuffers,
        limits: FetchLimits,
        *,
        offer: Callable[[Partition], None],
        stop: Callable[[Partition, StopReason], None],
        throttle: Throttle,
        replicated: ReplicatedFilter | None = None,
    ) -> None:
        self._throttle = throttle
        self._priority = throttle.priority
        self._replicated = replicated
        # A position moved without a record that is written: skipped batches, or the end of a run.
        self.has_quiet_progress = False
        self._buffers = buffers
        self._limits = limits
        self._offer = offer
        self._stop = stop
        self._leaders = SourceLeaders(cluster, partitions, buffers, limits, stop)
        # Not fetched until the target has caught up, and fetches sent since one of them had.
        self._full: set[Partition] = set()
        self._short_waits = 0
        self._overlap = (
            None
            if limits.overlap is None
            else OverlappingFetches(cluster, buffers, limits, limits.overlap)
        )

    # -- what the loop asks

    def connect(self, topics: Iterable[str]) -> None:
        """Connect to the leaders of these topics before reading begins."""
        self._leaders.connect(topics)

    def connections(self) -> Iterable[FetchConnection]:
        """The partitions' own connections."""
        return self._leaders.connections.values()

    def all_connections(self) -> Iterable[FetchConnection]:
        """These, and those of overlapping fetches."""
        further = () if self._overlap is None else self._overlap.connections()
        return [*self.connections(), *further]

    def wakes_at(self, now: float) -> float:
        """The next time at which a timer is due."""
        moments = [self._leaders.wakes_at()]
        if self._overlap is not None:
            moments.append(self._overlap.wakes_at(now))
        moments += [
            connection.retry_at for connection in self.connections() if connection.retry_at > now
        ]
        if any(
            connection.buffer is None and connection.members for connection in self.connections()
        ):
            moments += [moment for moment in [self._throttle.opens_at(now)] if moment > now]
        return min(moments)

    def send_requests(self, now: float) -> None:
        """Send a request to each broker that has none, while buffers last."""
        for partition in self._leaders.find_leaders(now):
            if self._is_full(partition):
                # It has a leader, and is not fetched until the target has caught up.
                self._leaders.errors.clear(partition)
                self._full.add(partition)
            else:
                self._leaders.start_fetching(partition)
        if self._full:
            for partition in [
                partition for partition in self._full if not self._is_full(partition)
            ]:
                self._full.discard(partition)
                self._leaders.start_fetching(partition)
                self._short_waits = 0
        self._send_own(now)
        if self._overlap is not None and self._throttle.opens_at(now) <= now:
            self._overlap.send_requests(now)

    def _send_own(self, now: float) -> None:
        for connection in sorted(self.connections(), key=_last_request_time):
            if connection.buffer is None and connection.members and now >= connection.retry_at:
                if self._throttle.opens_at(now) > now or (buffer := self._buffers.take()) is None:
                    return
                if self._priority is not None:
                    self._priority.select_partitions(connection)
                try:
                    connection.send_fetch(
                        buffer,
                        now,
                        max_bytes=self._throttle.most(self._limits.max_bytes),
                        max_wait_ms=self._max_wait_ms(),
                    )
                except KafkaUnavailable as error:
                    self._lost(connection, now, error)

    def _max_wait_ms(self) -> int:
        """How long the broker may wait for records of the partitions that are fetched.

        Meanwhile no other request can be sent on the connection. So the wait is short while the
        target catches up in a partition that is not fetched, and doubles while that lasts.
        """
        if not self._full:
            return self._limits.max_wait_ms
        self._short_waits += 1
        return min(_SHORT_WAIT_MS << min(self._short_waits, 10), self._limits.max_wait_ms)

    def receive(self, connection: FetchConnection, now: float) -> None:
        """Read what has arrived; when the reply is complete, request more at once."""
        try:
            read = connection.read(now)
            if read is None:
                return
            buffer, rows = read
            size = sum(row.stop - row.start for row in rows)
            self._throttle.record_read(size, now)
            if self._overlap is not None:
                rows = self._without_repeated(connection, buffer, rows)
                self._overlap.record_repeated(size - sum(r.stop - r.start for r in rows), now)
            stopped = self._find_replicated(connection, buffer, rows)
        except KafkaUnavailable as error:
            self._lost(connection, now, error)
            return
        is_own = not self._is_overlapping(connection)
        if is_own and self._priority is not None:
            self._priority.record_reply(connection, rows)
        connection.is_behind = False
        for row in rows:
            partition = connection.members.get((row.key, row.partition))
            if partition is None:
                continue
            if partition in stopped:
                self._stop(partition, stopped[partition])
            else:
                self._accept(partition, row, buffer, now)
                connection.is_behind |= is_own and partition.next_fetch < self._end(row)
        if not buffer.users:
            self._buffers.give_back(buffer)
        self._leaders.outage.end()
        self.send_requests(now)

    def _end(self, row: PartitionData) -> int:
        """The end of what may be read."""
        committed = self._limits.isolation == READ_COMMITTED
        return row.stable_offset if committed else row.high_watermark

    def _is_overlapping(self, connection: FetchConnection) -> bool:
        return self._overlap is not None and self._overlap.has(connection)

    def _without_repeated(
        self, connection: FetchConnection, buffer: ReceiveBuffer, rows: list[PartitionData]
    ) -> list[PartitionData]:
        """The rows that say something new. A request may have asked for what came meanwhile from
        another connection; its errors are about an earlier offset then."""
        is_own = not self._is_overlapping(connection)
        if not is_own and self._overlap is not None:
            self._overlap.answered(connection)
        found: list[PartitionData] = []
        for row in rows:
            partition = connection.members.get((row.key, row.partition))
            if partition is None or (not is_own and (row.error or row.diverging is not None)):
                continue
            asked, expected = connection.asked_offset(row), partition.next_fetch
            if asked == expected:
                found.append(row)
            elif asked < expected and not row.error and row.diverging is None:
                kept = trim(row, buffer.view, expected, partition.read_epoch)
                found += [kept] if kept is not None else []
        return found

    def _drop_overlapping(self, connection: FetchConnection, now: float) -> None:
        assert self._overlap is not None  # noqa: S101 - it has the connection
        self._overlap.lost(connection, now)

    def _stop_overlapping(self, connection: FetchConnection) -> None:
        """The partitions of this connection have no leader until they have been looked up again."""
        if self._overlap is not None:
            for partition in connection.members.values():
                self._overlap.remove(partition)

    def _lost(
        self, connection: FetchConnection, now: float, error: KafkaUnavailable | None
    ) -> None:
        if self._is_overlapping(connection):
            self._drop_overlapping(connection, now)
        else:
            self._stop_overlapping(connection)
            self._leaders.connection_lost(connection, now, error)

    def _find_replicated(
        self, connection: FetchConnection, buffer: ReceiveBuffer, rows: list[PartitionData]
    ) -> dict[Partition, StopReason]:
        """Find batches of other flows. Returns partitions for which that is impossible."""
        if self._replicated is None:
            return {}
        committed = self._limits.isolation == READ_COMMITTED
        parts = [
            FetchedBatches(
                partition, buffer, row.start, row.stop, row.aborted if committed else None
            )
            for row in rows
            if row.stop > row.start
            and not row.error
            and (partition := connection.members.get((row.key, row.partition))) is not None
        ]
        try:
            return self._replicated.find_replicated(parts)
        except BaseException:
            self._buffers.give_back(buffer)
            raise

    def give_up_overdue(self, now: float) -> None:
        """Give up connections whose reply is overdue, counted after the broker's own wait."""
        patience = self._limits.request_s + self._limits.max_wait_ms / 1000
        for connection in list(self.connections()):
            if connection.is_overdue(now, patience):
                self._lost(connection, now, None)
        if self._overlap is not None:
            self._overlap.give_up_overdue(now)

    def connection_closed(self, connection: FetchConnection, now: float) -> None:
        """The broker closed an idle connection."""
        if self._is_overlapping(connection):
            self._drop_overlapping(connection, now)
        else:
            self._stop_overlapping(connection)
            self._leaders.connection_closed(connection, now)

    def stop_reading(self, partition: Partition) -> None:
        """Stop reading this partition."""
        self._full.discard(partition)
        self._leaders.stop_reading(partition)
        if self._overlap is not None:
            self._overlap.remove(partition)

    def resume_reading(self, partition: Partition) -> None:
        """Read this partition again, from its `next_fetch` on."""
        self._leaders.errors.clear(partition)
        if not partition.is_read:
            self._leaders.look_up_leader(partition)

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Start again at the committed positions: replies in flight are ignored."""
        self._leaders.restart(partitions)
        if self._overlap is not None:
            self._overlap.restart()
        if self._priority is not None:
            self._priority.clear()
        self._full.clear()

    @property
    def limited_until(self) -> float:
        """The time until which the flow's bandwidth limit allows no reading."""
        return self._throttle.held_until

    @property
    def reads_by_name(self) -> bool:
        return self._leaders.reads_by_name

    def is_behind(self, partitions: Iterable[Partition]) -> bool:
        """Whether the last replies left records of a partition unread."""
        committed = self._limits.isolation == READ_COMMITTED
        for partition in partitions:
            end = partition.last_stable_offset if committed else partition.high_watermark
            if partition.error is None and end is not None and partition.next_fetch < end:
                return True
        return False

    # -- one reply

    def _accept(
        self, partition: Partition, row: PartitionData, buffer: ReceiveBuffer, now: float
    ) -> None:
        if row.error:
            if self._overlap is not None:
                self._overlap.remove(partition)
            self._leaders.handle_error(partition, row.error, now)
            return
        if row.diverging is not None:
            self._stop(partition, self._leaders.errors.diverged(partition, *row.diverging))
            return
        self._leaders.errors.clear(partition)
        partition.update_ends(row.high_watermark, row.stable_offset)
        before = partition.next_fetch
        if row.stop > row.start and scan(partition, buffer, row.start, row.stop, row.aborted):
            partition.drop_past_stop(buffer, STOP_INSIDE_BATCH)
            self._offer(partition)
        if self._priority is not None:
            self._priority.read(partition, self._end(row))
        self.has_quiet_progress = (
            self.has_quiet_progress or bool(partition.skipped.passed) or partition.is_read
        )
        if partition.is_read:
            self.stop_reading(partition)
            return
        if self._is_full(partition):
            self._full.add(partition)
            self._leaders.stop_fetching(partition)
        elif partition.next_fetch != before:
            self._leaders.start_fetching(partition)
        if self._overlap is not None:
            self._overlap_if_caught_up(partition, row, now, before)

    def _overlap_if_caught_up(
        self, partition: Partition, row: PartitionData, now: float, before: int
    ) -> None:
        assert self._overlap is not None  # noqa: S101 - checked by the caller
        if partition in self._full or partition.next_fetch < self._end(row):
            self._overlap.remove(partition)
        else:
            self._overlap.update(partition, now, has_moved=partition.next_fetch != before)

    def _is_full(self, partition: Partition) -> bool:
        return partition.queued_bytes > self._limits.queue_bytes


def _last_request_time(connection: FetchConnection) -> float:
    return connection.sent_at
