"""The raw lane: copies record batches as bytes, for all flows that do not change records.

One epoch: connect, wait for the turn, fence the transactional id, read the positions, copy until
the deadline or an order, commit, report. `copy_loop.py` is the loop.
"""

from __future__ import annotations

import contextlib
import gc
import time

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import name_of
from mirrors.kafka.producers.identity import ProducerLost
from spark_runner.engine import setup
from spark_runner.engine.commit_timing import CommitTiming
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.identity_checks import check_clusters, check_owner
from spark_runner.engine.model.distance import FAR_S, Distance
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.recovery import target_truncation, truncated_positions
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.recovery.hanging_transactions import HangingTransactions
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.engine.recovery.resume_offset import resume
from spark_runner.engine.slice_report import SliceReport
from spark_runner.engine.source.replicated_filter import ReplicatedFilter
from spark_runner.engine.source.throttle import Throttle
from spark_runner.engine.transforms.evaluation import Evaluator
from spark_runner.ipc.messages import EndedBecause, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.fetch import MAX_VERSION as NEWEST_FETCH

CONNECT_S = 30.0
FENCE_S = 30.0
READ_S = 60.0
ABORT_S = 2.0
MAX_RESTARTS = 5


class RawCopier:
    """The raw lane: `run(work, channel) -> SliceResult`. The versions are for tests."""

    def __init__(
        self,
        *,
        newest_fetch: int = NEWEST_FETCH,
        newest_produce: int = produce.MAX_VERSION,
        evaluator: Evaluator | None = None,
    ) -> None:
        """`evaluator` is for slices with topics that a rule filters or changes."""
        self._newest = (newest_fetch, newest_produce)
        self._evaluator = evaluator

    def run(self, work: SliceWork, channel: Channel) -> SliceResult:
        # The hot path creates no reference cycles, and one collection takes 10 ms or more.
        collecting = gc.isenabled()
        gc.disable()
        setup.retain_freed_memory()
        epoch = _Epoch(work, channel, *self._newest, self._evaluator)
        try:
            return epoch.run()
        finally:
            epoch.close()
            if collecting:
                gc.enable()


class _Epoch:
    """One epoch of one slice."""

    def __init__(
        self,
        work: SliceWork,
        channel: Channel,
        newest_fetch: int,
        newest_produce: int,
        evaluator: Evaluator | None,
    ) -> None:
        self._evaluator = evaluator
        self._work = work
        self._channel = channel
        self._newest_fetch = newest_fetch
        self._newest_produce = newest_produce
        self._ends_at = time.monotonic() + setup.seconds_left(work)
        self._settings = settings = work.spec.settings
        self._source = ClusterClient(work.source, settings.consumer)
        self._target = ClusterClient(work.target, settings.producer)
        self._producer_settings = ProducerSettings.of(
            {**work.target.properties, **settings.producer}
        )
        self._transactional = self._settings.delivery == "exactly_once"
        self._partitions = [
            setup.partition_of(row, settings.producer, settings.transforms)
            for row in work.partitions
        ]
        self._lane_counters = LaneCounters()
        self._throttle = Throttle(work, channel)
        self._duplicates = DuplicateCounter(self._target, transactional=self._transactional)
        self._report = SliceReport(
            self._partitions, channel, self._lane_counters, self._throttle, self._duplicates
        )
        # With the partitions of further target topics.
        self._members = [member for partition in self._partitions for member in partition.members]
        self._engine: CopyLoop | None = None
        self._restarts = 0
        # Commits and stopped partitions at the last restart.
        self._events = 0

    def run(self) -> SliceResult:
        ended = self._connect()
        if ended is not None:
            return self._report.result(ended)
        engine = self._engine
        assert engine is not None  # noqa: S101 - _connect made it
        try:
            self._take_over()
            ended = self._copy(engine)
        except Fenced as error:
            return self._report.result("fenced", error.message, error.code)
        except UnderstudyError as error:
            with contextlib.suppress(UnderstudyError, ProducerLost):
                engine.abort(ABORT_S)
            return self._report.result("failed", error.message, error.code)
        return self._report.result(ended)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    # -- the steps of an epoch

    def _connect(self) -> EndedBecause | None:
        """Prepare what needs no turn, then wait. Returns None when it is our turn."""
        work, settings = self._work, self._settings
        until = time.monotonic() + CONNECT_S
        self._source.open(until)
        self._target.open(until)
        check_clusters(work, self._source.cluster_id, self._target.cluster_id)
        if self._transactional and self._target.features.get("transaction.version", 0) < 2:
            # Below version 2 brokers reject newer Produce versions (KIP-890); Java's clients do the
            # same.
            self._newest_produce = min(self._newest_produce, produce.ADDS_PARTITIONS_VERSION - 1)
        brokers = setup.source_brokers(work, self._source, until)
        distance = Distance(
            self._source.round_trip_s(FAR_S, until), self._target.round_trip_s(FAR_S, until)
        )
        self._producer_settings = distance.adapt(
            self._producer_settings,
            {**work.target.properties, **settings.producer},
            transactional=self._transactional,
        )
        limits = setup.limits_of(
            settings.consumer,
            brokers=brokers,
            isolation_level=settings.isolation_level,
            newest=self._newest_fetch,
            memory_bytes=self._producer_settings.memory_bytes,
            request_s=self._source.request_s,
            distance=distance,
            partitions=len(self._partitions),
            overlap_bytes=settings.fetch_overlap_bytes // work.count,
        )
        replicated_filter = None
        if settings.skip_replicated:
            replicated_filter = ReplicatedFilter(self._source, self._partitions)
            replicated_filter.prepare(time.monotonic() + READ_S)
        commit_records = setup.commit_records_for(work, self._target, self._duplicates, until)
        self._identity = setup.identity_of(work, self._target, newest_produce=self._newest_produce)
        self._hanging_transactions = HangingTransactions(
            self._target,
            self._identity,
            self._members,
            commit_records.internal_partitions,
            transactional=self._transactional,
            own=truncated_positions.producers_of(self._target, self._identity, work),
            rewrite=commit_records.rewrite,
        )
        self._engine = CopyLoop(
            self._source,
            self._target,
            self._partitions,
            commit_records,
            self._identity,
            self._hanging_transactions,
            limits=limits,
            buffers=setup.buffers_for(
                limits,
                brokers=brokers,
                memory_bytes=self._producer_settings.memory_bytes,
                distance=distance,
            ),
            timing=CommitTiming(
                longest_s=settings.commit_interval_ms / 1000,
                readers_wait=self._transactional,
                behind_s=distance.commit_s if self._transactional else 0.0,
            ),
            lane_counters=self._lane_counters,
            throttle=self._throttle,
            duplicates=self._duplicates,
            tuning=self._producer_settings,
            replicated_filter=replicated_filter,
            transactional=self._transactional,
            newest_produce=self._newest_produce,
            rules=settings.transforms,
            evaluator=self._evaluator,
        )
        target_truncation.prepare(self._target, self._members)
        self._positions = PositionReader(self._target, work.positions_topic)
        # Read most of the topic while the previous epoch still copies, the rest after fencing.
        self._positions.read(time.monotonic() + READ_S)
        self._engine.connect()
        self._report.report("ready")
        if self._channel.wait_for_turn(max(0.0, self._ends_at - time.monotonic())):
            return None
        return self._channel.order() or "deadline"

    def _take_over(self) -> None:
        """Fence, then read the positions: later commits would be replicated twice."""
        engine = self._engine
        assert engine is not None  # noqa: S101 - made by _connect
        self._fence()
        self._hanging_transactions.end_in_internal_topics()
        self._duplicates.add_producer(self._identity.producer_id)
        awaited = [partition.topic_partition for partition in self._partitions]
        known = self._positions.read(time.monotonic() + READ_S, awaited)
        check_owner(self._work, self._positions.owner)
        self._hanging_transactions.possibly_stale.clear()
        for partition in self._partitions:
            position = known.get(partition.topic_partition)
            resume(partition, position, self._work)
            self._duplicates.resumed(partition, position)
            if (
                position is not None
                and position.producer is None
                and self._positions.is_older_than_leader(position)
            ):
                self._hanging_transactions.possibly_stale.update(partition.members)
        self._report.knows_positions = True
        engine.begin()
        self._report.speed = engine.speed

    def _fence(self) -> None:
        until = time.monotonic() + FENCE_S
        try:
            self._hanging_transactions.fence(until)
        except KafkaRefused as error:
            if self._transactional or error.code != "not_authorised":
                raise
            # At least once works without the right to fence. An old writer continues, and its
            # records after our first batch are duplicates that nobody counts.
            self._identity.init_idempotent(until)

    def _copy(self, engine: CopyLoop) -> EndedBecause:
        while True:
            try:
                ended = self._until_ended(engine)
                engine.commit(is_urgent=_is_slot_requested)
                engine.check_foreign_records_last()
            except ProducerLost as lost:
                self._restart(engine, lost)
                continue
            return ended

    def _until_ended(self, engine: CopyLoop) -> EndedBecause:
        commits, reported = engine.commits, -1
        while True:
            engine.run_once(self._is_urgent)
            if engine.commits != commits:
                commits = engine.commits
                self._restarts = 0
            if self._channel.due(moved=engine.events != reported):
                reported = engine.events
                self._report.report("copying")
            order = self._channel.order()
            if order is not None:
                return order
            if time.monotonic() >= self._ends_at:
                return "deadline"

    def _is_urgent(self) -> bool:
        return self._channel.order() is not None

    def _restart(self, engine: CopyLoop, lost: ProducerLost) -> None:
        """Start again with a new producer epoch at the last commit."""
        if engine.events != self._events:
            # Each stopped partition leaves fewer to restart for.
            self._events, self._restarts = engine.events, 0
        self._restarts += 1
        if self._restarts > MAX_RESTARTS or self._is_urgent():
            raise KafkaUnavailable(
                f"Cluster {self._target.alias}: the producer was given up {self._restarts} times "
                f"without a commit (could not {lost.doing}: {name_of(lost.number)}).",
                code="producer_lost",
            )
        time.sleep(min(1.0, 0.05 * 2**self._restarts))
        self._take_over()


def _is_slot_requested() -> bool:
    return True
