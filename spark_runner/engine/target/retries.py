"""Handles batches that the target did not acknowledge: retry, repack, or stop the partition.

A partition with batches in `to_retry` sends nothing new. Once nothing is in flight, these batches
return to the front of its queue in their order (`requeue`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import (
    BATCH_REJECTED,
    FENCING,
    LEADER_MOVED,
    PRODUCER_LOST,
    RETRIABLE,
    error_of_number,
)
from mirrors.kafka.producers.identity import ProducerLost
from spark_runner.engine.batches.header_scan import REJECTED
from spark_runner.engine.identity_checks import changed_topics
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.partition_state import DRAINING, RETRYING
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import REMEMBERED_BATCHES
from spark_runner.engine.recovery import target_truncation
from spark_runner.engine.target import errors
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.transaction import TransactionPartitions
from spark_runner.kafka_protocol.batch_header import sequence_of
from spark_runner.kafka_protocol.produce import ProduceResult

RETRY_S = 0.1
# Markers of the last transaction are written within milliseconds.
RETRY_BUSY_S = 0.003
_STALLED_AFTER_S = 1.0
# Errors that a broker returns before it writes. After any other the batch may be in the log: a wait
# for replicas timed out (7, 20), or the leader changed (3, 6, 56) and the next one has the batch.
_NOT_WRITTEN = frozenset(
    {
        Code.NOT_ENOUGH_REPLICAS,
        Code.CONCURRENT_TRANSACTIONS,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)


class Retries:
    """`stop` gets partitions that cannot continue, `stall` those that stall (True) or recover."""

    def __init__(
        self,
        leaders: TargetLeaders,
        preparer: BatchPreparer,
        transaction: TransactionPartitions,
        *,
        stop: Callable[[Partition, StopReason], None],
        stall: Callable[[Partition, bool], None],
    ) -> None:
        self._leaders = leaders
        self._preparer = preparer
        self._transaction = transaction
        self.stop = stop
        self._stall = stall
        # Partitions with a retried batch that may be written already. No commit meanwhile.
        self.outcome_unknown: set[Partition] = set()

    def rejected(
        self, partition: Partition, batch: PendingBatch, answer: ProduceResult, now: float
    ) -> None:
        number = answer.error
        if number in FENCING:
            doing = f"write {partition.remote_topic}-{partition.partition}"
            raise error_of_number(number, where=self._leaders.alias, doing=doing)
        self._transaction.note_rejected(number, now)
        behind = bool(partition.to_retry) and (
            number == Code.OUT_OF_ORDER_SEQUENCE_NUMBER or number in BATCH_REJECTED
        )
        partition.return_batch(batch)
        if behind:
            # Sent again unchanged; its own error shows when it comes first.
            return
        if number in RETRIABLE:
            if number not in _NOT_WRITTEN:
                self.outcome_unknown.add(partition)
            self.retry_later(partition, number, now)
        elif number in PRODUCER_LOST:
            if number == Code.UNKNOWN_SERVER_ERROR:
                self._mark_suspect(partition, batch, answer)
            raise ProducerLost(number, f"write {partition.remote_topic}-{partition.partition}")
        elif number not in BATCH_REJECTED or not _can_split(batch, answer):
            partition.fail(self._stop_reason(partition, batch, answer))

    def remote_truncated(self, partition: Partition, base: int) -> None:
        """A batch got an offset below the expected one: the remote partition was truncated.

        The transaction is aborted. Committed records that were lost are a person's decision; the
        others are replicated again.
        """
        if partition.is_internal or base < 0:
            return
        if base < partition.committed_downstream:
            partition.rewind(partition.position)
            # Without topic ids a recreated topic begins below as well.
            changed = changed_topics(self._leaders.cluster, [partition], remote=True)
            truncated = target_truncation.stop_reason(partition, base, self._leaders.alias)
            self.stop(partition, changed.get(partition, truncated))
        raise ProducerLost(Code.OFFSET_OUT_OF_RANGE, "find what was written before")

    def not_added(self, partition: Partition, batch: PendingBatch, number: int, now: float) -> None:
        """The batch was not sent: the coordinator did not add its partition to the transaction."""
        partition.undo_send()
        partition.return_batch(batch)
        if number in RETRIABLE:
            self.retry_later(partition, number, now)
        else:
            alias = self._leaders.alias
            partition.fail(errors.rejected(partition, batch.first, number, "", alias))
        if not partition.in_flight:
            self.requeue(partition)

    def _mark_suspect(
        self, partition: Partition, batch: PendingBatch, answer: ProduceResult
    ) -> None:
        """Error -1 leaves the outcome open: start a new producer and repack that batch."""
        if partition.suspect_offset == batch.first:
            self.stop(partition, self._stop_reason(partition, batch, answer))
        partition.suspect(batch.first)

    def _stop_reason(
        self, partition: Partition, batch: PendingBatch, answer: ProduceResult
    ) -> StopReason:
        offset, message = batch.first, answer.message
        if answer.record_errors:
            position, text = answer.record_errors[0]
            offset, message = batch.offset_at(position), text or message
        return errors.rejected(partition, offset, answer.error, message, self._leaders.alias)

    def requeue(self, partition: Partition) -> None:
        """Nothing is in flight: move the batches to retry to the front of the queue."""
        partition.requeue()
        queue, reason = partition.queue, partition.fails_for
        if reason is not None or (queue and queue[0].repack_reason == REJECTED):
            self._unstamp(partition)
        if reason is not None:
            self._preparer.discard_queued(partition)
            self.stop(partition, reason)
            return
        if partition.is_stalled:
            self._preparer.evict(partition)
            if not _has_stamped_batch(partition):
                # The target rejected the last batch: nothing else would end the stall.
                self.recovered(partition)
        self._leaders.mark_ready(partition)

    def _unstamp(self, partition: Partition) -> None:
        """The retried batches are not in the log: their sequence numbers are free again."""
        if partition in self.outcome_unknown:
            raise ProducerLost(Code.INVALID_RECORD, "find out what was written")
        stamped = [batch for batch in partition.queue if batch.is_stamped]
        for batch in stamped:
            batch.is_stamped = False
        if stamped and (first := stamped[0].view) is not None:
            partition.sequences.take_back(sequence_of(first))

    def leader_looked_up(self, partition: Partition, number: int, now: float) -> None:
        """A leader lookup has finished: 0, or an error code."""
        if number:
            self.retry_later(partition, number, now)
        elif partition.retry_since and not _has_stamped_batch(partition):
            self.recovered(partition)

    def retry_later(self, partition: Partition, number: int, now: float) -> None:
        """Retry the partition after a pause; stop it when retries last too long."""
        # A broker may return this when two connections add partitions to a transaction at once.
        busy = number == Code.CONCURRENT_TRANSACTIONS or (
            number == Code.NOT_ENOUGH_REPLICAS and not partition.retry_since
        )
        partition.begin_retry(now)
        partition.wait_until(now + (RETRY_BUSY_S if busy else RETRY_S))
        if number in LEADER_MOVED:
            self._leaders.look_up_leader(partition, partition.retry_at)
        seconds = now - partition.retry_since
        stop_reason = errors.overdue(
            partition,
            number,
            seconds,
            self._leaders.alias,
            give_up_s=self._leaders.tuning.give_up_s,
        )
        if stop_reason is not None:
            if partition.is_internal:
                raise KafkaUnavailable(stop_reason.reason, code=stop_reason.code)
            if partition in self.outcome_unknown:
                raise ProducerLost(number, f"find out what {partition.remote_topic} contains")
            partition.fail(stop_reason)
            if not partition.in_flight and not partition.to_retry:
                self.requeue(partition)
        elif (
            seconds > _STALLED_AFTER_S
            and partition.state in (RETRYING, DRAINING)
            and not partition.is_internal
            # What a rule gave to one of several topics is not read again before a restart.
            and partition.main is None
            and not partition.routes
        ):
            partition.stall()
            self._stall(partition, True)
            if not partition.in_flight and not partition.to_retry:
                self._preparer.evict(partition)

    def overdue(self, partition: Partition, now: float) -> None:
        """A commit waits for a retried batch too long."""
        seconds = now - partition.retry_since
        code = Code.REQUEST_TIMED_OUT
        reason = errors.overdue(partition, code, seconds, self._leaders.alias, give_up_s=0)
        if reason is not None:
            self.stop(partition, reason)

    def recovered(self, partition: Partition) -> None:
        """A batch of a retried partition was acknowledged; it has recovered when all retries are.

        During a backlog that takes a while, so the time counts from the last acknowledgement.
        """
        if _has_stamped_batch(partition):
            partition.retry_progressed(time.monotonic())
            return
        was_stalled = partition.is_stalled
        partition.recover()
        self.outcome_unknown.discard(partition)
        if was_stalled:
            self._stall(partition, False)

    def connection_lost(
        self, connection: ProduceConnection, now: float, error: KafkaUnavailable
    ) -> None:
        """The connection broke: requests in flight may be written, or not."""
        if self._leaders.connections.get(connection.connection_id) is not connection:
            return
        touched: dict[Partition, None] = {}
        is_doubtful = any(
            len(partition.in_flight) > REMEMBERED_BATCHES
            for batches in connection.in_flight
            for partition in batches
        )
        for batches in connection.in_flight:
            for partition, batch in batches.items():
                partition.answered()
                partition.return_batch(batch)
                touched[partition] = None
        self.outcome_unknown.update(touched)
        self._leaders.connection_lost(connection, now)
        self._leaders.outage.record_failure(now, error)
        if is_doubtful:
            # Brokers would not recognize all of them: abort, and restart at the last commit.
            raise ProducerLost(Code.NETWORK_EXCEPTION, "find out what was written")
        for partition in touched:
            partition.begin_retry(now)
            self.requeue(partition)

    def reset(self) -> None:
        """A new producer: batches with unknown outcome were aborted."""
        self.outcome_unknown.clear()


def _has_stamped_batch(partition: Partition) -> bool:
    """Whether a batch is in flight or will be sent again unchanged."""
    return bool(partition.in_flight or (partition.queue and partition.queue[0].is_stamped))


def _can_split(batch: PendingBatch, answer: ProduceResult) -> bool:
    """Whether the rejected batch can be repacked, or split down to the bad record."""
    suspect = answer.record_errors[0][0] if answer.record_errors else -1
    if batch.records > 1:
        known = 0 <= suspect < batch.records
        batch.split_at = (suspect, suspect + 1) if known else (batch.records // 2,)
    elif batch.buffer is None or batch.repack_reason:
        return False
    batch.repack_reason = REJECTED
    return True
