"""One partition of a slice: its target topics, downstream offsets, offset runs and counts."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from mirrors.domain.flows.latency import Latency, add_up, latency_of
from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.internal_topics.records import Position
from spark_runner.engine.model.partition_batches import PartitionBatches
from spark_runner.engine.model.pending_batch import RAW, PendingBatch, Run
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.batch_header import LOG_APPEND_TIME, Sequences


class PartitionCounters:
    """Counters of one partition in one epoch: batches, records, and their bytes as sent."""

    __slots__ = (
        "batches",
        "bytes",
        "committed_bytes",
        "committed_records",
        "committed_timestamp",
        "latency",
        "records",
    )

    def __init__(self) -> None:
        # Everything acknowledged, aborted transactions included. Batches count when acknowledged,
        # records and bytes when their transaction has ended.
        self.batches = self.records = self.bytes = 0
        self.committed_records = self.committed_bytes = 0
        # Timestamp of the last committed batch in ms; None before the first.
        self.committed_timestamp: int | None = None
        # Of the records committed since the last report.
        self.latency: Latency | None = None

    def ended(self, records: int, size: int) -> None:
        """The transaction of these acknowledged records was committed or aborted."""
        self.records += records
        self.bytes += size

    def committed(
        self, records: int, size: int, timestamp: int | None, latency: Latency | None
    ) -> None:
        """These records are committed; `timestamp` is that of the last batch."""
        self.latency = add_up((self.latency, latency))
        self.committed_records += records
        self.committed_bytes += size
        self.committed_timestamp = timestamp

    def take_latency(self) -> Latency | None:
        """The latency of the records committed since the last call."""
        found, self.latency = self.latency, None
        return found


_INDEX: Final = struct.Struct(">i")
# More ranges are not read one by one; the offset runs identify our records all the same.
MAX_UNVERIFIED_RANGES: Final = 256


class Partition(PartitionBatches):
    """A source partition and its remote partition. Only methods change it.

    - Downstream offsets: `committed_downstream` is where the next batch belonged at the last commit
      if nobody else writes there, `next_downstream` where it belongs now. -1: unknown.
    - Ids are 16 bytes, all zero for a broker without topic ids. Timestamps are those of records,
      in ms.
    """

    __slots__ = (
        "bytes",
        "committed_downstream",
        "confirmed_epoch",
        "connection_id",
        "counts",
        "dead_letters",
        "dead_letters_written",
        "foreign_records",
        "index",
        "is_internal",
        "kept",
        "main",
        "map_end",
        "name",
        "newest_timestamp",
        "next_downstream",
        "oldest_timestamp",
        "partition",
        "records",
        "refusal",
        "remote_id",
        "remote_key",
        "remote_topic",
        "repack_reason",
        "resets",
        "routes",
        "rule",
        "runs",
        "sequences",
        "settings",
        "source_epoch",
        "source_id",
        "source_key",
        "source_node",
        "timed_records",
        "timestamp",
        "timestamp_sum",
        "topic",
        "topic_partition",
        "unverified_ranges",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        remote_topic: str,
        *,
        source_id: bytes = b"",
        remote_id: bytes = b"",
        position: int = 0,
        stop_offset: int | None = None,
        settings: TopicSettings | None = None,
        is_internal: bool = False,
        rule: int = -1,
    ) -> None:
        super().__init__(position, stop_offset)
        self.topic = topic
        self.partition = partition
        self.remote_topic = remote_topic
        # Whether it is an internal topic, written by the engine itself.
        self.is_internal = is_internal
        self.name = f"{topic}-{partition}"
        # The index of the rule that filters or changes its records; -1 for none.
        self.rule = rule
        self.topic_partition = (topic, partition)
        # Further target topics by a rule (`transforms.routes`): each is a partition of its own that
        # is not read, and whose `main` is this one.
        self.routes: tuple[Partition, ...] = ()
        self.main: Partition | None = None
        # Why a target topic rejects a record at an offset: the partition stops before it.
        self.refusal: StopReason | None = None
        # The keys identify the topics in requests: ids, or names for old brokers.
        self.source_id, self.source_key = source_id, source_id
        self.remote_id, self.remote_key = remote_id, remote_id
        self.index = _INDEX.pack(partition)
        self.settings = TopicSettings() if settings is None else settings
        # -- upstream
        self.source_node = self.source_epoch = -1
        self.timestamp: int | None = None
        # -- downstream
        self.connection_id = (-1, 0)
        self.sequences = Sequences()
        self.runs: list[Run] = []
        self.next_downstream = self.committed_downstream = -1
        # The end of the last committed run; None: unknown.
        self.map_end: int | None = None
        # Ranges between our batches, each from its first offset to the one after it, and foreign
        # records that were found there.
        self.unverified_ranges: list[tuple[int, int]] = []
        self.foreign_records: list[ForeignRange] = []
        # Acknowledged since the last commit.
        self.records = 0
        self.bytes = 0
        # Timestamps of these records by the headers of their batches; -1 while there are none.
        self.oldest_timestamp = self.newest_timestamp = -1
        self.timestamp_sum = self.timed_records = 0
        self.counts = PartitionCounters()
        # In the dead-letter topic: as committed, and in the transaction that is written.
        self.dead_letters = self.dead_letters_written = 0
        # As in the committed position: operators' decisions, and those that kept the offset runs.
        self.resets = self.kept = 0
        self.repack_reason = RAW
        # The producer epoch, as a number of the writer, under which a batch was acknowledged.
        # Before that only one batch may be in flight: a first sequence must be 0.
        self.confirmed_epoch = -1

    # -- target topics

    def add_routes(self, routes: Sequence[Partition]) -> None:
        """Records go to these partitions as well, as a rule decides."""
        self.routes = tuple(routes)
        for route in routes:
            route.main = self

    @property
    def members(self) -> tuple[Partition, ...]:
        """The partition with those of its other target topics."""
        return (self, *self.routes)

    def stop(self, error: PartitionError) -> None:
        super().stop(error)
        for route in self.routes:
            route.stop(error)

    def resume_stopped(self) -> None:
        super().resume_stopped()
        for route in self.routes:
            route.resume_stopped()

    def refuse(self, reason: StopReason) -> None:
        """Stop before the record at the reason's offset, once the slice has started again."""
        self.refusal = reason

    # -- where it starts

    def rewind(self, position: int) -> None:
        """Drop everything uncommitted and continue from this position."""
        self.forget_batches(position)
        self.runs = []
        self.next_downstream = self.committed_downstream
        self.dead_letters_written = 0
        self.count_acknowledged()
        self.restart()
        for route in self.routes:
            route.rewind(position)

    def resume(self, known: Position) -> None:
        """Continue from this committed position."""
        self.rewind(known.position)
        self.resets, self.kept = known.resets, known.kept
        self.map_end = known.map_end
        self.dead_letters = known.dead_letters
        epoch = -1 if known.leader_epoch is None else known.leader_epoch
        self.read_epoch = self.acknowledged_epoch = epoch
        if known.next_downstream is not None:
            self.set_downstream(known.next_downstream)
        rows = {row.topic: row for row in known.routes}
        for route in self.routes:
            route.resets, route.kept = known.resets, known.kept
            row = rows.get(route.remote_topic)
            route.map_end = None if row is None else row.map_end
            if row is not None and row.next_downstream is not None:
                route.set_downstream(row.next_downstream)

    def set_downstream(self, offset: int) -> None:
        """The offset of the next batch on the target."""
        self.next_downstream = self.committed_downstream = offset

    def expect_downstream(self, offset: int, map_end: int | None) -> None:
        """What the committed position says of the target, before the partition resumes there."""
        self.committed_downstream, self.map_end = offset, map_end

    # -- the clusters

    def assign_source(self, node: int, epoch: int) -> None:
        """The leader on the source."""
        self.source_node, self.source_epoch = node, epoch

    def identify_source(self, key: bytes) -> None:
        """How fetch requests name the topic: by id, or by name for an old broker."""
        self.source_key = key

    def assign_connection(self, connection_id: tuple[int, int], key: bytes) -> None:
        """The connection to its leader on the target, and how requests name the topic there."""
        self.connection_id = connection_id
        self.remote_key = key

    # -- writing

    def acknowledge(self, batch: PendingBatch, base: int) -> None:
        """The target has the batch, from this downstream offset on."""
        header = batch.header
        records = header[12]
        if base > self.next_downstream >= 0 and len(self.unverified_ranges) < MAX_UNVERIFIED_RANGES:
            self.unverified_ranges.append((self.next_downstream, base))
        self.next_downstream = base + records
        if batch.offset_ranges:
            for first, count in batch.offset_ranges:
                self._add_run(first, base, count)
                base += count
        else:
            self._add_run(batch.first, base, records)
        self.acknowledged_offset = batch.after
        self.records += records
        self.bytes += batch.size
        self.counts.batches += 1
        newest = header[8]
        self.timestamp = newest
        # With LogAppendTime all records have the newest timestamp.
        self._note_timestamps(newest if header[5] & LOG_APPEND_TIME else header[7], newest, records)
        self.acknowledged_epoch = batch.leader_epoch
        self.repack_reason = batch.repack_reason

    def _note_timestamps(self, first: int, last: int, records: int) -> None:
        """A batch's records are taken for evenly spread between its two timestamps."""
        if first < 0 or last < 0:
            return
        oldest, newest = (first, last) if first <= last else (last, first)
        if self.oldest_timestamp < 0 or oldest < self.oldest_timestamp:
            self.oldest_timestamp = oldest
        if newest > self.newest_timestamp:
            self.newest_timestamp = newest
        self.timestamp_sum += (oldest + newest) * records // 2
        self.timed_records += records

    def note_record_timestamp(self, timestamp: int) -> None:
        """One record of the record lane that the next commit contains."""
        self._note_timestamps(timestamp, timestamp, 1)

    def confirm(self, epoch: int) -> None:
        """A batch was acknowledged under this producer epoch."""
        self.confirmed_epoch = epoch

    def _add_run(self, first: int, base: int, count: int) -> None:
        runs = self.runs
        if runs:
            upstream, downstream, length = runs[-1]
            if upstream + length == first and downstream + length == base:
                runs[-1] = (upstream, downstream, length + count)
                return
        runs.append((first, base, count))

    def count_dead_letters(self, count: int) -> None:
        """The next commit writes this many records to the dead-letter topic."""
        self.dead_letters_written = count

    # -- the commit

    def commit(self, downstream: int, now: int) -> None:
        """Everything acknowledged is committed, `now` (epoch ms).

        `downstream`: offset of the next batch, or -1.
        """
        self.position = self.acknowledged_offset
        self.map_end = self.next_map_end
        self.next_downstream = downstream
        self.committed_downstream = max(downstream, self.committed_downstream)
        self.runs = []
        self.skipped.commit(self.position)
        self.dead_letters += self.dead_letters_written
        self.dead_letters_written = 0
        latency = latency_of(
            records=self.timed_records,
            timestamp_sum=self.timestamp_sum,
            oldest=self.oldest_timestamp,
            newest=self.newest_timestamp,
            now=now,
        )
        self.counts.committed(self.records, self.bytes, self.timestamp, latency)
        self.count_acknowledged()

    def count_acknowledged(self) -> None:
        """Count the records acknowledged since the last commit, committed or aborted."""
        self.counts.ended(self.records, self.bytes)
        self.records = self.bytes = self.timestamp_sum = self.timed_records = 0
        self.oldest_timestamp = self.newest_timestamp = -1

    @property
    def next_map_end(self) -> int | None:
        """The end of the last run once everything acknowledged is committed."""
        if not self.records:
            return self.map_end
        return self.next_downstream if self.next_downstream >= 0 else None

    # -- the record lane, whose batches librdkafka makes

    def acknowledge_records(self, count: int, last: int) -> None:
        """These records were acknowledged since the last commit, up to this downstream offset."""
        self.records = count
        self.next_downstream = max(self.next_downstream, last + 1)

    def commit_records(self, position: int, downstream: int, now: int) -> None:
        """Commit this position; the rest as in `commit`."""
        self.acknowledged_offset = position
        self.commit(downstream, now)

    def forget_epoch(self) -> None:
        """librdkafka does not return leader epochs.

        With the epoch of an earlier record, the broker would report the log as truncated.
        """
        self.acknowledged_epoch = -1

    # -- foreign records

    def forget_ranges(self) -> None:
        self.unverified_ranges.clear()

    def forget_range(self, first: int, stop: int) -> None:
        """This range needs no check, if it is one to be checked."""
        if (first, stop) in self.unverified_ranges:
            self.unverified_ranges.remove((first, stop))

    def verify_first_range(self, found: list[ForeignRange]) -> None:
        """The first range was read; these records there are foreign."""
        self.foreign_records += found
        self.unverified_ranges.pop(0)

    def take_foreign_records(self) -> tuple[ForeignRange, ...]:
        """Foreign records found since the last call."""
        found, self.foreign_records = tuple(self.foreign_records), []
        return found
