"""One partition on its way across: what was read, what is on the wire, what is acknowledged."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from mirrors.domain.gaps.foreign_records import Stretch
from spark_runner.engine.model.pending_batch import RAW, Parcel, Run
from spark_runner.engine.model.skipped_batches import LeftOut
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.model.target_settings import Policy
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.batch_header import Sequences


class Counts:
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
MOST_HOLES: Final = 256


class Track:
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
        "bytes",
        "confirmed",
        "counts",
        "done",
        "doomed",
        "end",
        "ending",
        "epoch",
        "error",
        "flying",
        "held_since",
        "held_until",
        "holes",
        "home",
        "index",
        "kept",
        "key",
        "leader_epoch",
        "ledger",
        "left_out",
        "map_end",
        "name",
        "next_fetch",
        "next_there",
        "partition",
        "place",
        "policy",
        "position",
        "queue",
        "queued_bytes",
        "records",
        "remote_id",
        "remote_key",
        "remote_topic",
        "resets",
        "returned",
        "runs",
        "sequences",
        "source_epoch",
        "source_id",
        "source_node",
        "stable_end",
        "stop_at",
        "strangers",
        "suspect",
        "there",
        "timestamp",
        "topic",
        "why",
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
        self.place = (topic, partition)
        # The keys name the topics on the wire: by id, or by name where a broker is old.
        self.source_id, self.key = source_id, source_id
        self.remote_id, self.remote_key = remote_id, remote_id
        self.index = _INDEX.pack(partition)
        self.policy = Policy()
        # upstream
        self.position = self.done = self.next_fetch = position
        # of the last batch read, and of the last one that landed (KIP-320)
        self.leader_epoch = self.epoch = -1
        self.end: int | None = None
        self.stable_end: int | None = None
        # The end of a bounded run.
        self.stop_at: int | None = None
        self.source_node = self.source_epoch = -1
        self.timestamp: int | None = None
        # on the way
        self.queue: deque[Parcel] = deque()
        self.queued_bytes = 0
        self.flying: deque[Parcel] = deque()
        # What other flows wrote here.
        self.left_out = LeftOut()
        # downstream
        self.home = (-1, 0)
        self.sequences = Sequences()
        self.runs: list[Run] = []
        # Where our next batch belongs if nobody else writes there, now and as committed; -1 when
        # that is not known.
        self.next_there = self.there = -1
        # Where the last committed run ends; None when that is not known.
        self.map_end: int | None = None
        # Between our batches, each from its first offset to the one behind it; and what others
        # were found to have written there.
        self.holes: list[tuple[int, int]] = []
        self.strangers: list[Stretch] = []
        # Landed since the last commit; of what came before only the figures tell.
        self.records = 0
        self.bytes = 0
        self.counts = Counts()
        # As in the committed position: an operator's decisions, and those that kept the map.
        self.resets = self.kept = 0
        self.why = RAW
        # Until a batch has landed under this number only one may fly: a first sequence must be 0.
        self.confirmed = -1
        # trouble
        self.returned: list[Parcel] = []
        self.held_since = 0.0
        self.held_until = 0.0
        self.suspect = -1
        # ending: send what is queued, then stop; doomed: send nothing more, then stop
        self.ending: Verdict | None = None
        self.doomed: Verdict | None = None
        self.error: PartitionError | None = None

    def rewind(self, position: int) -> None:
        """Forget all that is not committed and go on from here."""
        self.position = self.done = self.next_fetch = position
        self.flying.clear()
        self.queue.clear()
        self.returned.clear()
        self.queued_bytes = 0
        self.runs = []
        self.next_there = self.there
        self.left_out.forget()
        self.settle()
        self.ending = self.doomed = None
        self.held_since = self.held_until = 0.0

    def pass_over(self, after: int, epoch: int) -> None:
        """What lies before this offset and behind all that was read does not cross.

        The epoch goes along: with that of an earlier batch the broker would call the log truncated.
        """
        behind = self.queue or self.flying
        if behind:
            behind[-1].after, behind[-1].epoch = after, epoch
        else:
            self.done, self.epoch = after, epoch

    def landed(self, parcel: Parcel, base: int) -> None:
        """The target has the batch, from this downstream offset on."""
        header = parcel.header
        records = header[12]
        if base > self.next_there >= 0 and len(self.holes) < MOST_HOLES:
            self.holes.append((self.next_there, base))
        self.next_there = base + records
        if parcel.stretches:
            for first, count in parcel.stretches:
                self._run(first, base, count)
                base += count
        else:
            self._run(parcel.first, base, records)
        self.done = parcel.after
        self.records += records
        self.bytes += parcel.size
        self.counts.batches += 1
        self.timestamp = header[8]
        self.epoch = parcel.epoch
        self.why = parcel.why

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
        self.left_out.read_again_from(offset)

    def settle(self) -> None:
        """Count what has landed since the last commit, for good or in vain."""
        self.counts.settled(self.records, self.bytes)
        self.records = self.bytes = 0

    def commit(self, there: int) -> None:
        """What has landed counts from now on; our next batch belongs at the offset `there`, or -1
        where that is not known."""
        self.position = self.done
        self.map_end = self.next_map_end
        self.next_there, self.there = there, max(there, self.there)
        self.runs = []
        self.left_out.commit(self.position)
        self.counts.committed(self.records, self.bytes, self.timestamp)
        self.settle()

    @property
    def next_map_end(self) -> int | None:
        """Where the last run ends once all that has landed is committed."""
        if not self.records:
            return self.map_end
        return self.next_there if self.next_there >= 0 else None

    @property
    def is_read(self) -> bool:
        """Whether a bounded run wants no more of it."""
        return self.stop_at is not None and self.next_fetch >= self.stop_at

    @property
    def has_moved(self) -> bool:
        """Whether the next commit has a position to write down."""
        return self.done != self.position
