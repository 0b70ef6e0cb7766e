"""The copy loop of one slice, in one thread: fetch, produce, commit.

While the target writes the batches of one fetch response, the source prepares the next response.

- What ends the loop: a request of the driver, the deadline, a fence, an unavailable cluster.
- What restarts it in place (`ProducerLost`): a new producer epoch, read the positions, continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mirrors.domain.flows.speed_limits import SliceSpeed, milliseconds
from mirrors.domain.transforms.rules import TransformRule
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerIdentity, ProducerLost
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
from spark_runner.engine.speed_meter import SpeedMeter
from spark_runner.engine.target.batch_preparation import BatchPreparer, is_intact
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.engine.target.retries import Retries
from spark_runner.engine.target.transaction import TransactionPartitions
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.engine.transforms.evaluation import Evaluator, Transforms
from spark_runner.kafka_protocol.batch_header import BatchStamper
from spark_runner.kafka_protocol.cluster import ClusterClient

_FLUSH_S = 20.0
_URGENT_S = 3.0


class CopyLoop:
    """Copies the partitions of one slice; `epoch.py` talks to the driver.

    A partition that cannot continue stops alone. `begin`, `run_once` and `commit` raise what ends
    or restarts the slice: Fenced, ProducerLost, KafkaUnavailable, and KafkaRefused for what only a
    person can fix.
    """

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        partitions: list[Partition],
        commit_records: CommitRecords,
        identity: ProducerIdentity,
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
        rules: Sequence[TransformRule] = (),
        evaluator: Evaluator | None = None,
    ) -> None:
        self.partitions = partitions
        # With the partitions of further target topics.
        self._members = [member for partition in partitions for member in partition.members]
        self._source, self._target = source, target
        self._commit_records = commit_records
        self._duplicates = duplicates
        self._identity, self._hanging_transactions = identity, hanging_transactions
        self._transactional = transactional
        self._timing = timing
        self._buffers = buffers
        self._stamper = BatchStamper(transactional=transactional)
        commit_records.markers = int(transactional)
        # Without transactions, runs are written first: after a crash nobody would add runs that are
        # missing behind a written position. The same holds for dead letters.
        positions, *others = commit_records.internal_partitions
        self._internal_partitions: tuple[tuple[Partition, ...], ...] = (
            ((*others, positions),) if transactional else (tuple(others), (positions,))
        )
        self._foreign_records = ForeignRecordCheck(
            target, identity, watches=replicated_filter is None
        )
        target_leaders = TargetLeaders(
            target,
            [*self._members, *commit_records.internal_partitions],
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
            small_bytes=tuning.small_bytes,
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
        self._meter = SpeedMeter(target_leaders, self._reader, self._writer, buffers)
        self._transforms: Transforms | None = None
        if evaluator is not None:
            self._transforms = transforms = Transforms(
                rules,
                evaluator,
                buffers,
                corrupt=preparer.stop_at_corrupt_batch,
                stop_at=preparer.stop_at,
                offer=self._writer.offer,
                is_intact=is_intact,
                dead_letters=commit_records.dead_letters,
                source=source.alias,
            )
            preparer.evaluate = transforms.request
        wake_descriptor = -1 if evaluator is None else evaluator.fileno()
        self._poller = Poller(
            target_leaders, self._reader, self._writer, timing, self._meter, wake_descriptor
        )
        routed = [partition for partition in partitions if partition.routes]
        self._flush = Flush(target_leaders, retries, self._writer, routed)
        self.commits = 0

    @property
    def events(self) -> int:
        """Increases with each commit and each stopped partition, reported at once."""
        return self.commits + self._stops.count

    def speed(self, now: float) -> SliceSpeed:
        """What limited the slice lately, and the round trips to both clusters."""
        return SliceSpeed(
            limit=self._meter.limit(now, self.partitions),
            source_rtt_ms=milliseconds(self._source.fastest_request_s),
            target_rtt_ms=milliseconds(self._target.fastest_request_s),
        )

    def connect(self) -> None:
        """Connect to the source's brokers while the previous epoch still copies."""
        self._reader.connect(dict.fromkeys(partition.topic for partition in self.partitions))

    def begin(self) -> None:
        """Start at the committed positions. The producer is initialized.

        Called again after each ProducerLost: everything uncommitted is dropped.
        """
        for partition, stop_reason in self._hanging_transactions.begin().items():
            self._stops.stop_before(partition, stop_reason)
        active = [partition for partition in self.partitions if partition.error is None]
        self._stamper.take(self._identity.producer_id, self._identity.epoch)
        for partition in self._commit_records.internal_partitions:
            partition.rewind(0)
        self._commit_records.begin()
        self._writer.restart()
        self._reader.restart(partition for partition in active if not partition.is_read)
        # Last, when no batch uses a buffer.
        self._buffers.reset()
        self._timing.begin(time.monotonic())
        self._meter.restart()
        if self._commit_records.to_rewrite:
            self._timing.opened(time.monotonic())

    def run_once(self, is_urgent: Callable[[], bool]) -> None:
        """Send what can be sent, wait at most 0.5 s, handle what arrived; or commit if that is due.

        `is_urgent`: see `commit`.
        """
        now = time.monotonic()
        self._reader.send_requests(now)
        self._writer.send_ready(now)
        if self._timing.is_due(now, idle=not self._writer.is_busy()):
            if not (self._timing.may_postpone(now) and self._reader.is_behind(self.partitions)):
                self.commit(is_urgent=is_urgent)
                return
            self._timing.postpone(now)
        for connection in self._poller.wait(now):
            self._poller.handle(connection, time.monotonic())
        if self._transforms is not None:
            self._evaluated(self._transforms, is_urgent)
        self._reader.give_up_overdue(now)
        self._writer.give_up_overdue(now)

    def _evaluated(self, transforms: Transforms, is_urgent: Callable[[], bool]) -> None:
        transforms.receive()
        if transforms.has_quiet_progress and not self._timing.is_open:
            self._timing.opened(time.monotonic())
        transforms.has_quiet_progress = False
        dead_letters = self._commit_records.dead_letters
        if dead_letters is not None and dead_letters.is_commit_due():
            self.commit(is_urgent=is_urgent)

    def commit(self, *, is_urgent: Callable[[], bool]) -> bool:
        """Commit all acknowledged records with their positions and runs. Returns False without any.

        `is_urgent` says that the driver waits for the slice; then the commit does not wait for a
        target that does not respond.
        """
        began = time.monotonic()
        self._flush.wait_for_batches(began + _FLUSH_S, is_urgent)
        drained = time.monotonic()
        to_rewrite = self._commit_records.to_rewrite
        moved = [
            partition
            for partition in self.partitions
            if partition.has_moved or partition in to_rewrite
        ]
        if not moved:
            if self._transaction.is_left_open(self._members, time.monotonic()):
                self._end_transaction(is_urgent, commit=False)
            self._timing.nothing_to_commit(began)
            return False
        # At least once, written positions count at once, so check before writing.
        self._check_topic_names()
        self._duplicates.count_before_commit(moved)
        self._commit_records.write(moved, int(time.time() * 1000))
        for internal_partitions in self._internal_partitions:
            self._flush.write_internal(internal_partitions, time.monotonic() + _FLUSH_S, is_urgent)
        self._end_transaction(is_urgent)
        self._commit_records.committed()
        self._duplicates.committed(moved)
        now = int(time.time() * 1000)
        for partition in moved:
            for member in partition.members:
                member.commit(self._commit_records.after_commit(member), now)
        self.commits += 1
        ended = time.monotonic()
        self._timing.committed(began, ended)
        self._meter.committed(began, drained, ended)
        if not is_urgent():
            self._target_leaders.balance_connections(time.monotonic())
            self._foreign_records.check(self._members, time.monotonic())
        return True

    def check_foreign_records_last(self) -> None:
        """After the last commit: check the remaining ranges for foreign records.

        The next epoch does not know these ranges.
        """
        self._foreign_records.check(self._members, time.monotonic(), last=True)

    def abort(self, within: float) -> None:
        """Abort the open transaction within this number of seconds, if possible.

        An open transaction delays consumers of the target. Exceptions:

        - Nothing was begun: no abort. It would overwrite the coordinator's record of how the last
          transaction ended.
        - Transaction version 1 keeps its epoch, so a batch that arrives after the abort would join
          the next transaction. Without all responses the transaction stays open; the next owner
          ends it under another epoch.
        - The transaction contains a hanging one whose data is committed: never aborted.

        Raises as `commit` does; the transaction may still be open then.
        """
        until = time.monotonic() + within
        is_begun = self._transactional and self._transaction.is_begun
        if is_begun and self._identity.version == 1:
            self._flush.wait_for_batches(until, lambda: False)
        if is_begun and not self._hanging_transactions.is_repairing:
            self._identity.end(commit=False, deadline=until)

    def _end_transaction(self, is_urgent: Callable[[], bool], *, commit: bool = True) -> None:
        """End the transaction, if there is one, and pass on the epoch that is valid from now on."""
        if not self._transactional:
            return
        deadline = time.monotonic() + (_URGENT_S if is_urgent() else _FLUSH_S)
        self._hanging_transactions.mark_ending()
        is_another = self._identity.end(commit=commit, deadline=deadline)
        now = time.monotonic()
        if is_another:
            self._stamper.take(self._identity.producer_id, self._identity.epoch)
            self._writer.new_epoch(
                (partition for partition in self._members if partition.retry_since), now
            )
        else:
            self._writer.same_epoch(now)

    def _check_topic_names(self) -> None:
        """For brokers without topic ids: check that each topic is still the planned one.

        If not, batches may belong to another topic and must not be committed.
        """
        stop_reasons: dict[Partition, StopReason] = {}
        if self._reader.reads_by_name:
            stop_reasons |= changed_topics(self._source, self.partitions, remote=False)
        if self._target_leaders.writes_by_name:
            stop_reasons |= changed_topics(self._target, self._members, remote=True)
        for partition, stop_reason in stop_reasons.items():
            self._stops.stop(partition, stop_reason)
        if stop_reasons:
            raise ProducerLost(Code.UNKNOWN_TOPIC_ID, "verify that the topics are the planned ones")
