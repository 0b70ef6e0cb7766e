"""The copying loop of one slice: sockets in, sockets out, a commit now and then.

One thread. While the target works on what was sent, the source's next reply is on its way. What
ends a run: an order, the deadline, a fence, a cluster that stays away. What restarts it in place:
a producer that is lost (`ProducerLost`): init again, read the positions again, go on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.producer_id import Identity, ProducerLost
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.commit_timing import CommitTiming
from spark_runner.engine.flush import Flush
from spark_runner.engine.identity_checks import changed_topics
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.partition_stop import PartitionStops
from spark_runner.engine.poller import Poller
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.recovery.foreign_records import ForeignRecordCheck
from spark_runner.engine.recovery.hanging_transactions import HangingTransactions
from spark_runner.engine.source.fetch_connection import FetchLimits
from spark_runner.engine.source.reader import SourceReader
from spark_runner.engine.source.replicated_filter import ReplicatedFilter
from spark_runner.engine.source.throttle import Throttle
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.engine.target.retries import Retries
from spark_runner.engine.target.transaction import TransactionPartitions
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.kafka_protocol.batch_header import BatchStamper
from spark_runner.kafka_protocol.cluster import ClusterClient

_FLUSH_S = 20.0
_HURRIED_S = 3.0


class CopyLoop:
    """Everything of one slice but the contract with the driver.

    Tracks that cannot go on stop alone. What ends or restarts the slice is raised, by `begin`,
    `turn` and `commit` alike: Fenced, ProducerLost, KafkaUnavailable, and KafkaRefused for what
    only a person can mend.
    """

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        partitions: list[Partition],
        commit_records: CommitRecords,
        identity: Identity,
        hanging_transactions: HangingTransactions,
        *,
        limits: FetchLimits,
        buffers: ReceiveBuffers,
        timing: CommitTiming,
        lane_counters: LaneCounters,
        throttle: Throttle,
        duplicates: DuplicateCounter,
        replicated_filter: ReplicatedFilter | None = None,
        transactional: bool,
        tuning: ProducerSettings,
        newest_produce: int = 13,
    ) -> None:
        self.partitions = partitions
        self._source, self._target = source, target
        self._commit_records = commit_records
        self._duplicates = duplicates
        self._identity, self._hanging_transactions = identity, hanging_transactions
        self._transactional = transactional
        self._timing = timing
        self._buffers = buffers
        self._stamper = BatchStamper(transactional=transactional)
        commit_records.markers = int(transactional)
        # Where nothing binds them together, no position before its runs: nobody would add those.
        runs, positions = commit_records.runs, commit_records.positions
        self._internal_partitions: tuple[tuple[Partition, ...], ...] = (
            ((runs, positions),) if transactional else ((runs,), (positions,))
        )
        self._foreign_records = ForeignRecordCheck(
            target, identity, watches=replicated_filter is None
        )
        target_leaders = TargetLeaders(
            target,
            [*partitions, positions, runs],
            transactional_id=identity.transactional_id if transactional else None,
            tuning=tuning,
            newest=newest_produce,
        )
        self._target_leaders = target_leaders
        self._stops = stops = PartitionStops(target_leaders, commit_records)
        stops.preparer = preparer = BatchPreparer(
            self._stamper,
            buffers,
            target.alias,
            merged_bytes=tuning.merged_bytes,
            stop_reading=stops.stop_reading,
        )
        self._transaction = TransactionPartitions(identity, request_s=target.request_s)
        retries = Retries(
            target_leaders, preparer, self._transaction, stop=stops.stop, stall=stops.set_stalled
        )
        self._writer = TargetWriter(
            target_leaders,
            retries,
            preparer,
            buffers,
            lane_counters,
            self._transaction,
            find_unverified=hanging_transactions.find_unverified,
        )
        self._reader = stops.reader = SourceReader(
            source,
            (),
            buffers,
            limits,
            offer=self._writer.offer,
            stop=stops.stop_after_queued,
            throttle=throttle,
            replicated=replicated_filter,
        )
        self._poller = Poller(target_leaders, self._reader, self._writer, timing)
        self._flush = Flush(target_leaders, retries, self._writer)
        self.commits = 0

    @property
    def events(self) -> int:
        """Grows with everything that the driver should hear of soon."""
        return self.commits + self._stops.count

    def begin(self) -> None:
        """The producer is initialised and the tracks stand at their committed positions.

        Asked again after each ProducerLost: what is not committed is forgotten.
        """
        for partition, stop_reason in self._hanging_transactions.begin().items():
            self._stops.stop(partition, stop_reason)
        going = [partition for partition in self.partitions if partition.error is None]
        self._stamper.take(self._identity.producer_id, self._identity.epoch)
        for partition in (self._commit_records.positions, self._commit_records.runs):
            partition.rewind(0)
        self._commit_records.begin()
        self._writer.restart()
        self._reader.restart(partition for partition in going if not partition.is_read)
        # Last: nobody has a buffer any more.
        self._buffers.reset()
        self._timing.begin(time.monotonic())
        if self._commit_records.to_rewrite:
            self._timing.opened(time.monotonic())

    def run_once(self, hurry: Callable[[], bool]) -> None:
        """Once round: send what can be sent, wait half a second at most, take what has come.

        A commit that is due takes the place of the rest; for `hurry` see there.
        """
        now = time.monotonic()
        self._reader.send_requests(now)
        self._writer.send_ready(now)
        if self._timing.is_due(now, idle=not self._writer.is_busy()):
            self.commit(hurry=hurry)
            return
        for connection in self._poller.wait(now):
            self._poller.handle(connection, time.monotonic())
        self._reader.give_up_overdue(now)
        self._writer.give_up_overdue(now)

    def commit(self, *, hurry: Callable[[], bool]) -> bool:
        """Everything that has landed becomes visible, with its positions and runs; or nothing.

        `hurry` says that somebody waits: then a target that does not answer is not waited for.
        Returns whether there was anything to commit.
        """
        began = time.monotonic()
        self._flush.wait_for_batches(began + _FLUSH_S, hurry)
        to_rewrite = self._commit_records.to_rewrite
        moved = [
            partition
            for partition in self.partitions
            if partition.has_moved or partition in to_rewrite
        ]
        if not moved:
            if self._transaction.is_left_open(self.partitions, time.monotonic()):
                self._end_transaction(hurry, commit=False)
            self._timing.nothing(began)
            return False
        # At least once what is written counts at once, so before.
        self._check_topic_names()
        self._duplicates.look(moved)
        self._commit_records.write(moved, int(time.time() * 1000))
        for internal_partitions in self._internal_partitions:
            self._flush.write_internal(internal_partitions, time.monotonic() + _FLUSH_S, hurry)
        self._end_transaction(hurry)
        self._commit_records.committed()
        self._duplicates.committed(moved)
        for partition in moved:
            partition.commit(self._commit_records.after_commit(partition))
        self.commits += 1
        self._timing.committed(began, time.monotonic())
        if not hurry():
            self._target_leaders.balance_connections(time.monotonic())
            self._foreign_records.look(self.partitions, time.monotonic())
        return True

    def check_foreign_records_last(self) -> None:
        """Behind the last commit: look into holes that were not looked into yet.

        The next epoch knows nothing of them.
        """
        self._foreign_records.look(self.partitions, time.monotonic(), last=True)

    def abort(self, within: float) -> None:
        """Give the open transaction up within so many seconds, as well as it goes.

        Left open it would hold up the target's readers. When none is begun nothing is said: an
        abort of nothing would be all that the coordinator remembers, and no longer how the last one
        ended. Version 1 keeps its epoch, and what came in behind the abort would count with the
        next transaction: without replies it stays open, for who takes over to end it under another
        epoch. One that has taken in what hangs, which was committed before, is never aborted.

        Raises as `commit` does; the transaction may be open still then.
        """
        until = time.monotonic() + within
        is_begun = self._transactional and self._transaction.is_begun
        if is_begun and self._identity.version == 1:
            self._flush.wait_for_batches(until, lambda: False)
        if is_begun and not self._hanging_transactions.is_mending:
            self._identity.end(commit=False, deadline=until)

    def _end_transaction(self, hurry: Callable[[], bool], *, commit: bool = True) -> None:
        """At least once there is none. The outlet learns which epoch holds from now on."""
        if not self._transactional:
            return
        deadline = time.monotonic() + (_HURRIED_S if hurry() else _FLUSH_S)
        self._hanging_transactions.note_end_begins()
        is_another = self._identity.end(commit=commit, deadline=deadline)
        now = time.monotonic()
        if is_another:
            self._stamper.take(self._identity.producer_id, self._identity.epoch)
            self._writer.new_epoch(
                (partition for partition in self.partitions if partition.retry_since), now
            )
        else:
            self._writer.same_epoch(now)

    def _check_topic_names(self) -> None:
        """Old brokers know topics by name only: is each still the one that was planned?

        If not, what was read or written may be the wrong topic's, and must not be committed.
        """
        stop_reasons: dict[Partition, StopReason] = {}
        if self._reader.reads_by_name:
            stop_reasons |= changed_topics(self._source, self.partitions, remote=False)
        if self._target_leaders.writes_by_name:
            stop_reasons |= changed_topics(self._target, self.partitions, remote=True)
        for partition, stop_reason in stop_reasons.items():
            self._stops.stop(partition, stop_reason)
        if stop_reasons:
            raise ProducerLost(Code.UNKNOWN_TOPIC_ID, "prove that the topics are still the same")
