"""The target side of a slice: sends batches in order and reads the responses.

Three rules keep the order within a partition:

- The first batch of a producer epoch is sent alone: a first sequence must be 0, and error 51 may
  return it.
- At most five requests per connection are in flight. To a distant target there are more, but at
  least once no more than five batches of a partition.
- A retried batch is sent before anything newer, with the same bytes and sequence, once nothing else
  of that partition is in flight. A lost response does no harm: the broker recognizes the batch and
  returns its first offset.

`flush.py` waits for all responses before a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerLost
from mirrors.kafka.protocol.connection_errors import timed_out
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.partition_state import FAILING
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.leaders import TargetLeaders, has_unwritten
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.retries import RETRY_S, Retries
from spark_runner.engine.target.transaction import MarkerDelay, TransactionPartitions

# A blocked connection is tried again with each response, and after this time. A send buffer of
# megabytes does not run dry meanwhile.
_BLOCKED_S: Final = 0.005
PartitionFilter = Callable[[Partition], bool]


class TargetWriter:
    """All produce connections of a slice. `find_unverified` returns partitions that must not be
    sent yet.

    `now` is in seconds of the monotonic clock. Sending and receiving may raise

    - Fenced: another owner writes under our transactional id,
    - ProducerLost: only a new producer can continue in order,
    - KafkaUnavailable: no broker of the target responds,
    - KafkaRefused: the target rejects records of our internal topics.

    A broken connection raises nothing: its batches are retried.
    """

    def __init__(
        self,
        leaders: TargetLeaders,
        retries: Retries,
        preparer: BatchPreparer,
        buffers: ReceiveBuffers,
        lane_counters: LaneCounters,
        transaction: TransactionPartitions,
        *,
        find_unverified: Callable[[Iterable[Partition]], Iterable[Partition]],
    ) -> None:
        self._leaders = leaders
        self._tuning = leaders.tuning
        self._retries = retries
        self._preparer = preparer
        self._buffers, self._lane_counters = buffers, lane_counters
        self._find_unverified, self._transaction = find_unverified, transaction
        # Number of producer epochs. A partition is confirmed under each one separately.
        self._epoch_number = 0
        self._marker_delay = MarkerDelay()
        # Connections whose first response since the last transaction is open.
        self._first: set[tuple[int, int]] = set()

    # -- what the loop asks

    def offer(self, partition: Partition) -> None:
        """The partition has something to send."""
        if partition.error is None:
            self._leaders.mark_ready(partition)

    def busy_connections(self) -> list[ProduceConnection]:
        """Connections with a request in flight."""
        return [
            connection for connection in self._leaders.connections.values() if connection.in_flight
        ]

    def wakes_at(self, now: float) -> float:
        """The next time at which a timer is due."""
        moment = self._leaders.wakes_at()
        delay = self._marker_delay.until
        for connection in self._leaders.connections.values():
            if connection.is_blocked:
                moment = min(moment, now + _BLOCKED_S)
            if connection.ready and now < delay < moment:
                moment = delay
            if connection.ready and now < connection.transport.quiet_until < moment:
                moment = connection.transport.quiet_until
            for partition in connection.ready:
                if now < partition.retry_at < moment:
                    moment = partition.retry_at
        return moment

    def send_ready(self, now: float, selected: PartitionFilter = lambda _: True) -> None:
        """Look up missing leaders, then send what the selected partitions have."""
        for partition, number in self._leaders.find_leaders(now):
            self._retries.leader_looked_up(partition, number, now)
        for connection in list(self._leaders.connections.values()):
            if connection.ready:
                for partition in self._find_unverified(connection.ready):
                    partition.wait_until(now + RETRY_S)
            if now < self._marker_delay.until:
                continue
            while connection.may_send(now) and self._send(connection, now, selected):
                pass
            connection.was_full |= bool(connection.ready) and connection.is_full

    def receive(self, connection: ProduceConnection, now: float) -> None:
        """Read the oldest response of a connection, and all that are buffered behind it."""
        self._receive(connection, now)
        while connection.in_flight and connection.transport.pending():
            self._receive(connection, now)

    def _receive(self, connection: ProduceConnection, now: float) -> None:
        try:
            batches, answers = connection.read(now)
        except KafkaUnavailable as error:
            self._retries.connection_lost(connection, now, error)
            return
        if connection.connection_id in self._first:
            self._first.discard(connection.connection_id)
            # Internal topics are written at the end of a transaction, not at its begin.
            if not any(partition.is_internal for partition in batches):
                self._marker_delay.answered(connection.took_s)
        by_key = self._leaders.by_key
        for answer in answers:
            partition = by_key[answer.key, answer.partition]
            batch = batches.pop(partition)
            partition.answered()
            if answer.error:
                self._retries.rejected(partition, batch, answer, now)
            elif partition.to_retry:
                # An earlier batch was rejected, so the broker must not have accepted this one.
                raise ProducerLost(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "keep the order")
            else:
                self._acknowledged(partition, batch, answer.base_offset)
            if not partition.in_flight:
                if partition.to_retry or partition.state == FAILING:
                    self._retries.requeue(partition)
                else:
                    self._stop_if_drained(partition)
        self._leaders.outage.end()

    @property
    def marker_until(self) -> float:
        """The time until which nothing is sent after a transaction."""
        return self._marker_delay.until

    def is_confirmed(self, partition: Partition) -> bool:
        """Whether the first batch of the producer epoch is acknowledged: more may follow."""
        return partition.confirmed_epoch == self._epoch_number

    def is_busy(self) -> bool:
        """Whether anything is in flight or ready to send."""
        return any(
            connection.in_flight or connection.ready
            for connection in self._leaders.connections.values()
        )

    def give_up_overdue(self, now: float) -> None:
        """Give up connections whose response is overdue."""
        for connection in self.busy_connections():
            if connection.is_overdue(now):
                self._retries.connection_lost(
                    connection, now, timed_out(connection.transport.where)
                )

    def new_epoch(self, partitions: Iterable[Partition], now: float) -> None:
        """A transaction has ended and the producer epoch has increased.

        Retried batches of these partitions, which are not written, are stamped again under the new
        one.
        """
        self._epoch_number += 1
        self._transaction_ended(now)
        for partition in partitions:
            for batch in partition.queue:
                batch.is_stamped = False

    def same_epoch(self, now: float) -> None:
        """A transaction of version 1 has ended: sequence numbers continue."""
        self._transaction_ended(now)

    def restart(self) -> None:
        """A new producer: nothing that was in flight counts."""
        self._epoch_number += 1
        self._transaction.clear()
        self._retries.reset()
        self._leaders.restart()

    def _transaction_ended(self, now: float) -> None:
        self._marker_delay.begin(now)
        self._first = set(self._leaders.connections)
        self._transaction.clear()

    # -- out

    def _send(self, connection: ProduceConnection, now: float, selected: PartitionFilter) -> bool:
        """Send one request with a batch of each partition that may send one."""
        batches: BatchesInFlight = {}
        size, most = 0, connection.room
        for partition in list(connection.ready):
            if not self._may_send(partition, now) or not selected(partition):
                continue
            del connection.ready[partition]
            batch = self._preparer.next(partition)
            if batch is None:
                self._stop_if_drained(partition)
                continue
            batches[partition] = batch
            partition.sent(batch)
            if partition.queue:
                connection.ready[partition] = None
            size += batch.size
            if size >= most:
                break
        self._transaction.is_begun |= bool(batches)
        if not connection.adds_partitions_itself:
            for partition, number in self._transaction.add(batches).items():
                self._retries.not_added(partition, batches.pop(partition), number, now)
        if not batches:
            return False
        try:
            connection.send(batches, now)
        except KafkaUnavailable as error:
            self._retries.connection_lost(connection, now, error)
            return False
        return True

    def _stop_if_drained(self, partition: Partition) -> None:
        """Stop a draining partition when all its batches are written, to all its topics."""
        if partition.main is not None:
            partition = partition.main
        reason = partition.drains_for
        if reason is not None and not any(map(has_unwritten, partition.members)):
            self._retries.stop(partition, reason)

    def _may_send(self, partition: Partition, now: float) -> bool:
        if partition.retry_at > now or partition.to_retry:
            return False
        return not partition.in_flight or (
            partition.confirmed_epoch == self._epoch_number
            and len(partition.in_flight) < self._tuning.partition_in_flight
        )

    # -- in

    def _acknowledged(self, partition: Partition, batch: PendingBatch, base: int) -> None:
        if base < partition.next_downstream or base < partition.committed_downstream:
            self._retries.remote_truncated(partition, base)
        partition.acknowledge(batch, base)
        partition.confirm(self._epoch_number)
        if batch.buffer is not None:
            self._buffers.release(batch.buffer)
        if batch.repack_reason:
            self._lane_counters.count(batch)
        if partition.retry_since:
            self._retries.recovered(partition)
