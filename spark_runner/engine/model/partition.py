"""One partition on its way across: what was read, what is on the wire, what is acknowledged."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from mirrors.domain.gaps.foreign_records import Stretch
from spark_runner.engine.model.pending_batch import RAW, PendingBatch, Run
from spark_runner.engine.model.skipped_batches import SkippedBatches
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.batch_header import Sequences


class PartitionCounters:
    """Of one track in one epoch: records, and the bytes of their batches as they were sent."""

    __slots__ = (
        "batches",
        "bytes",
        "committed_bytes",
        "committed_records",
        "committed_timestamp",
        "records",
    )

    def __init__(self) -> None:
        # All that has landed, also in vain, in transactions that were given up: the batches as they
        # land, records and bytes once it is known which of the two it was.
        self.batches = self.records = self.bytes = 0
        self.committed_records = self.committed_bytes = 0
        # Of the last batch that is committed, in ms; None until one is.
        self.committed_timestamp: int | None = None

    def settled(self, records: int, size: int) -> None:
        """So much has landed since the last commit, and was committed or given up."""
        self.records += records
        self.bytes += size

    def committed(self, records: int, size: int, timestamp: int | None) -> None:
        """So much of what has landed counts from now on; `timestamp` is that of its last batch."""
        self.committed_records += records
        self.committed_bytes += size
        self.committed_timestamp = timestamp


_INDEX: Final = struct.Struct(">i")
# Beyond that nobody looks into each; the runs say all the same what is ours.
MOST_UNVERIFIED: Final = 256


class Partition:
    """A source partition and its place on the target.

    Offsets are upstream ones: `position` is committed, `done` lies behind all that the target has
    acknowledged (it becomes the position with the next commit), `next_fetch` behind all that was
    read. A parcel waits in `queue`, then flies, then has landed or is returned; returned ones go
    back to the front of the queue when nothing of the track flies any more.

    Ids are 16 bytes, of zeros where a broker is too old to have any. Moments (`held_since`,
    `held_until`) are seconds of the monotonic clock, 0.0 for none; timestamps are those of
    records, in ms.
    """

    __slots__ = (
        "acknowledged_epoch",
        "acknowledged_offset",
        "bytes",
        "committed_downstream",
        "confirmed_epoch",
        "connection_id",
        "counts",
        "ending",
        "error",
        "failing",
        "foreign_records",
        "high_watermark",
        "in_flight",
        "index",
        "kept",
        "last_stable_offset",
        "ledger",
        "map_end",
        "name",
        "next_downstream",
        "next_fetch",
        "partition",
        "position",
        "queue",
        "queued_bytes",
        "read_epoch",
        "records",
        "remote_id",
        "remote_key",
        "remote_topic",
        "repack_reason",
        "resets",
        "retry_at",
        "retry_since",
        "runs",
        "sequences",
        "settings",
        "skipped",
        "source_epoch",
        "source_id",
        "source_key",
        "source_node",
        "stop_offset",
        "suspect_offset",
        "timestamp",
        "to_retry",
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
        ledger: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.remote_topic = remote_topic
        # one of our own topics, not a copied one
        self.ledger = ledger
        self.name = f"{topic}-{partition}"
        self.topic_partition = (topic, partition)
        # The keys name the topics on the wire: by id, or by name where a broker is old.
        self.source_id, self.source_key = source_id, source_id
        self.remote_id, self.remote_key = remote_id, remote_id
        self.index = _INDEX.pack(partition)
        self.settings = TopicSettings()
        # upstream
        self.position = self.acknowledged_offset = self.next_fetch = position
        # of the last batch read, and of the last one that landed (KIP-320)
        self.read_epoch = self.acknowledged_epoch = -1
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        # The end of a bounded run.
        self.stop_offset: int | None = None
        self.source_node = self.source_epoch = -1
        self.timestamp: int | None = None
        # on the way
        self.queue: deque[PendingBatch] = deque()
        self.queued_bytes = 0
        self.in_flight: deque[PendingBatch] = deque()
        # What other flows wrote here.
        self.skipped = SkippedBatches()
        # downstream
        self.connection_id = (-1, 0)
        self.sequences = Sequences()
        self.runs: list[Run] = []
        # Where our next batch belongs if nobody else writes there, now and as committed; -1 when
        # that is not known.
        self.next_downstream = self.committed_downstream = -1
        # Where the last committed run ends; None when that is not known.
        self.map_end: int | None = None
        # Between our batches, each from its first offset to the one behind it; and what others
        # were found to have written there.
        self.unverified_ranges: list[tuple[int, int]] = []
        self.foreign_records: list[Stretch] = []
        # Landed since the last commit; of what came before only the figures tell.
        self.records = 0
        self.bytes = 0
        self.counts = PartitionCounters()
        # As in the committed position: an operator's decisions, and those that kept the map.
        self.resets = self.kept = 0
        self.repack_reason = RAW
        # Until a batch has landed under this number only one may fly: a first sequence must be 0.
        self.confirmed_epoch = -1
        # trouble
        self.to_retry: list[PendingBatch] = []
        self.retry_since = 0.0
        self.retry_at = 0.0
        self.suspect_offset = -1
        # ending: send what is queued, then stop; doomed: send nothing more, then stop
        self.ending: StopReason | None = None
        self.failing: StopReason | None = None
        self.error: PartitionError | None = None

    def rewind(self, position: int) -> None:
        """Forget all that is not committed and go on from here."""
        self.position = self.acknowledged_offset = self.next_fetch = position
        self.in_flight.clear()
        self.queue.clear()
        self.to_retry.clear()
        self.queued_bytes = 0
        self.runs = []
        self.next_downstream = self.committed_downstream
        self.skipped.forget()
        self.count_acknowledged()
        self.ending = self.failing = None
        self.retry_since = self.retry_at = 0.0

    def pass_over(self, after: int, epoch: int) -> None:
        """What lies before this offset and behind all that was read does not cross.

        The epoch goes along: with that of an earlier batch the broker would call the log truncated.
        """
        behind = self.queue or self.in_flight
        if behind:
            behind[-1].after, behind[-1].leader_epoch = after, epoch
        else:
            self.acknowledged_offset, self.acknowledged_epoch = after, epoch

    def acknowledge(self, batch: PendingBatch, base: int) -> None:
        """The target has the batch, from this downstream offset on."""
        header = batch.header
        records = header[12]
        if base > self.next_downstream >= 0 and len(self.unverified_ranges) < MOST_UNVERIFIED:
            self.unverified_ranges.append((self.next_downstream, base))
        self.next_downstream = base + records
        if batch.offset_ranges:
            for first, count in batch.offset_ranges:
                self._run(first, base, count)
                base += count
        else:
            self._run(batch.first, base, records)
        self.acknowledged_offset = batch.after
        self.records += records
        self.bytes += batch.size
        self.counts.batches += 1
        self.timestamp = header[8]
        self.acknowledged_epoch = batch.leader_epoch
        self.repack_reason = batch.repack_reason

    def _run(self, first: int, base: int, count: int) -> None:
        runs = self.runs
        if runs:
            upstream, downstream, length = runs[-1]
            if upstream + length == first and downstream + length == base:
                runs[-1] = (upstream, downstream, length + count)
                return
        runs.append((first, base, count))

    def read_again_from(self, offset: int) -> None:
        """Fetch on from this upstream offset: what was read behind it is not kept."""
        self.next_fetch = offset
        self.skipped.read_again_from(offset)

    def count_acknowledged(self) -> None:
        """Count what has landed since the last commit, for good or in vain."""
        self.counts.settled(self.records, self.bytes)
        self.records = self.bytes = 0

    def commit(self, committed_downstream: int) -> None:
        """What has landed counts from now on; our next batch belongs at the offset `there`, or -1
        where that is not known."""
        self.position = self.acknowledged_offset
        self.map_end = self.next_map_end
        self.next_downstream, self.committed_downstream = (
            committed_downstream,
            max(committed_downstream, self.committed_downstream),
        )
        self.runs = []
        self.skipped.commit(self.position)
        self.counts.committed(self.records, self.bytes, self.timestamp)
        self.count_acknowledged()

    @property
    def next_map_end(self) -> int | None:
        """Where the last run ends once all that has landed is committed."""
        if not self.records:
            return self.map_end
        return self.next_downstream if self.next_downstream >= 0 else None

    @property
    def is_read(self) -> bool:
        """Whether a bounded run wants no more of it."""
        return self.stop_offset is not None and self.next_fetch >= self.stop_offset

    @property
    def has_moved(self) -> bool:
        """Whether the next commit has a position to write down."""
        return self.acknowledged_offset != self.position
