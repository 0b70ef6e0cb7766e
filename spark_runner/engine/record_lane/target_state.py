"""State of the remote partitions in the record lane: end offsets, truncation, duplicates.

The rules are those of the raw lane (`recovery/`), with three differences:

- Records of a failed predecessor are counted and committed before anything is written: with at
  least once a new process uses a new producer id.
- librdkafka does not return that id; the log of the positions topic shows it.
- librdkafka does not end transactions that it did not begin. A hanging one is ended before the
  record producer takes the transactional id. One that it has joined ends with its next commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import UnmappedRange
from mirrors.domain.internal_topics.records import Position
from mirrors.kafka.retry import RetryBackoff
from spark_runner.engine import setup
from spark_runner.engine.commit_records import PositionRecords
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.record_lane.producer import AcknowledgedRecords, RecordProducer
from spark_runner.engine.recovery import target_truncation, truncated_positions
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.recovery.hanging_transactions import HangingTransactions
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient

log = logging.getLogger(__name__)

_LOOKUP_S = 3.0
_FENCE_S = 30.0


class TargetState:
    """One instance per epoch."""

    def __init__(self, work: SliceWork, producer: RecordProducer) -> None:
        self._record_producer = producer
        self._topic = work.positions_topic
        self._client = ClusterClient(work.target, work.spec.settings.producer)
        self.duplicates = DuplicateCounter(self._client, transactional=producer.transactional)
        self.rows = PositionRecords(
            self.duplicates,
            source_cluster=work.source_cluster_id,
            target_cluster=work.target_cluster_id,
        )
        self.rows.markers = int(producer.transactional)
        self._identity = setup.identity_of(work, self._client)
        self._producers = truncated_positions.producers_of(self._client, self._identity, work)
        self._hanging_transactions: HangingTransactions | None = None

    def close(self) -> None:
        self._client.close()

    def open(self, partitions: Iterable[Partition], deadline: float) -> None:
        """Connect, before our turn. Raises KafkaUnavailable."""
        self._client.open(deadline)
        target_truncation.prepare(self._client, partitions)

    def end_hanging(
        self, partitions: Iterable[Partition], read: Callable[[], Mapping[TopicPartition, Position]]
    ) -> None:
        """In our turn, before the producer is initialized: end hanging transactions."""
        if not self._record_producer.transactional:
            return
        deadline = time.monotonic() + _FENCE_S
        active = [partition for partition in partitions if partition.error is None]
        view = self._client.describe([self._topic], deadline)[self._topic]
        stored = Partition(self._topic, 0, self._topic, remote_id=view.topic_id, is_internal=True)
        hanging_transactions = HangingTransactions(
            self._client,
            self._identity,
            active,
            [stored],
            transactional=True,
            own=self._producers,
            rewrite=self.rows.rewrite,
        )
        hanging_transactions.fence(deadline)
        hanging_transactions.end_in_internal_topics()
        if hanging_transactions.any_hanging():
            known = read()
            for partition in active:
                row = known.get(partition.topic_partition)
                if row is not None and row.next_downstream is not None and row.remote_end is None:
                    partition.expect_downstream(row.next_downstream, row.map_end)
            hanging_transactions.begin()
        self._hanging_transactions = hanging_transactions

    def take_over(
        self, partitions: Iterable[Partition], known: Mapping[TopicPartition, Position]
    ) -> dict[Partition, StopReason]:
        """Start at the committed positions. Returns truncated partitions, and why they stop."""
        active = [partition for partition in partitions if partition.error is None]
        for partition in active:
            self.duplicates.resumed(partition, known.get(partition.topic_partition))
        if not active:
            return {}
        ends = target_truncation.ends(self._client, active)
        truncated = target_truncation.truncated(ends, self._client.alias) | self._lost_positions(
            ends, known
        )
        self.duplicates.count_before_write(
            {partition: end for partition, end in ends.items() if partition not in truncated}
        )
        if not self._record_producer.transactional:
            at = self._record_producer.rewrite_position(self._last_position(active[0], known))
            for partition, end in ends.items():
                partition.set_downstream(max(end, partition.committed_downstream))
            if (producer := self._producer_of(at)) is not None:
                self.duplicates.add_producer(producer)
            self._record_producer.commit(
                self.rows.position(partition, partition.position)
                for partition in active
                if partition not in truncated
            )
        return truncated

    def _lost_positions(
        self, ends: Mapping[Partition, int], known: Mapping[TopicPartition, Position]
    ) -> dict[Partition, StopReason]:
        """Librdkafka does not show how old a position is, so every partition with later records is
        checked."""
        if not self._record_producer.transactional:
            return {}
        behind = {
            partition: end
            for partition, end in ends.items()
            if end > partition.committed_downstream >= 0
            and (row := known.get(partition.topic_partition)) is not None
            and row.producer is None
        }
        return truncated_positions.judge(self._client, behind, self._producers)[0]

    def truncated(
        self, acknowledged: Mapping[Partition, AcknowledgedRecords]
    ) -> dict[Partition, StopReason]:
        """Before a commit: partitions whose first record got an offset below the expected one."""
        firsts = {
            partition: found.first for partition, found in acknowledged.items() if found.first >= 0
        }
        truncated = target_truncation.truncated(firsts, self._client.alias)
        if self._hanging_transactions is None or not truncated:
            return truncated
        markers = {
            partition: firsts[partition]
            for partition in truncated
            if firsts[partition] == partition.committed_downstream - 1
        }
        joined = self._hanging_transactions.joined_earlier(markers)
        return {
            partition: stop_reason
            for partition, stop_reason in truncated.items()
            if partition not in joined
        }

    def acknowledged(self, partition: Partition, found: AcknowledgedRecords) -> None:
        """All records of the partition are acknowledged; the next commit includes them."""
        partition.acknowledge_records(found.count, found.last)

    def commit_failed(self, acknowledged: Mapping[Partition, AcknowledgedRecords]) -> None:
        for partition, found in acknowledged.items():
            self.duplicates.commit_failed(partition, found.count)

    def committed(self, positions: Mapping[Partition, int]) -> None:
        """These positions are committed, with all acknowledged records."""
        self.rows.to_rewrite.clear()
        self.duplicates.committed(positions)
        now = int(time.time() * 1000)
        for partition, at in positions.items():
            partition.commit_records(at, self.rows.after_commit(partition), now)

    def _last_position(
        self, partition: Partition, known: Mapping[TopicPartition, Position]
    ) -> Position:
        return known.get(partition.topic_partition) or self.rows.position(
            partition, partition.position
        )

    def _producer_of(self, at: int | None) -> int | None:
        """The producer id of the record at this offset of the positions topic."""
        deadline = time.monotonic() + _LOOKUP_S
        backoff = RetryBackoff(deadline)
        try:
            view = self._client.describe([self._topic], deadline)[self._topic]
            partition = Partition(
                self._topic, 0, self._topic, remote_id=view.topic_id, is_internal=True
            )
            while at is not None:
                for _, seen in read_ranges(
                    self._client, partition, [UnmappedRange(at, at + 1)], deadline
                ):
                    return next(one.producer for one in seen if one.first <= at <= one.last)
                if not backoff.wait():
                    break
        except UnderstudyError as error:
            log.warning("the producer id of this slice is unknown: %s", error.message)
        return None
