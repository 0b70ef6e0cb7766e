"""The batches of a partition that are not committed, and how far it is read and acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from spark_runner.engine.model.partition_state import PartitionState
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.model.skipped_batches import SkippedBatches


class PartitionBatches(PartitionState):
    """Upstream offsets of a partition, and the batches between them.

    A batch waits in `queue`, then it is in flight, then it is acknowledged, or returned for a
    retry. Returned batches go back to the front of the queue when nothing of the partition is in
    flight.

    Upstream offsets: `position` is committed. `acknowledged_offset` follows everything that the
    target has acknowledged; the next commit makes it the position. `next_fetch` follows everything
    that was read.
    """

    __slots__ = (
        "acknowledged_epoch",
        "acknowledged_offset",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "next_fetch",
        "position",
        "queue",
        "queued_bytes",
        "read_epoch",
        "skipped",
        "stop_offset",
        "to_retry",
    )

    def __init__(self, position: int, stop_offset: int | None) -> None:
        super().__init__()
        self.position = self.acknowledged_offset = self.next_fetch = position
        # Leader epochs of the last batch read and of the last one acknowledged (KIP-320).
        self.read_epoch = self.acknowledged_epoch = -1
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        # The end of a bounded run.
        self.stop_offset = stop_offset
        self.queue: deque[PendingBatch] = deque()
        self.queued_bytes = 0
        self.in_flight: deque[PendingBatch] = deque()
        self.to_retry: list[PendingBatch] = []
        # Batches of other flows.
        self.skipped = SkippedBatches()

    @property
    def is_read(self) -> bool:
        """Whether it is read to the end of a bounded run."""
        return self.stop_offset is not None and self.next_fetch >= self.stop_offset

    @property
    def has_moved(self) -> bool:
        """Whether the next commit has a position to write."""
        return self.acknowledged_offset != self.position

    def forget_batches(self, position: int) -> None:
        """Drop everything uncommitted; it is read again from this position."""
        self.position = self.acknowledged_offset = self.next_fetch = position
        self.in_flight.clear()
        self.queue.clear()
        self.to_retry.clear()
        self.queued_bytes = 0
        self.skipped.forget()

    # -- reading

    def update_ends(self, high_watermark: int, last_stable_offset: int) -> None:
        self.high_watermark, self.last_stable_offset = high_watermark, last_stable_offset

    def add_read(
        self, batches: Sequence[PendingBatch], size: int, next_fetch: int, epoch: int
    ) -> None:
        """Queue batches of a reply; it is read up to `next_fetch`, in this leader epoch."""
        self.queue.extend(batches)
        self.queued_bytes += size
        self.next_fetch = next_fetch
        self.read_epoch = epoch

    def skip_to(self, after: int, epoch: int) -> None:
        """Everything read up to this offset is not replicated.

        The leader epoch is that of the dropped batch: with an earlier one the broker would report
        the log as truncated.
        """
        behind = self.queue or self.in_flight
        if behind:
            behind[-1].after, behind[-1].leader_epoch = after, epoch
        else:
            self.acknowledged_offset, self.acknowledged_epoch = after, epoch

    def drop_past_stop(self, buffer: ReceiveBuffer, reason: str) -> None:
        """Remove records of the last response after the end of a bounded run, if it is reached."""
        stop = self.stop_offset
        if stop is None or self.next_fetch < stop:
            return
        queue = self.queue
        # By `first`: the header of an old wrapper has the offset of its last message.
        while queue and queue[-1].buffer is buffer and queue[-1].first >= stop:
            self.queued_bytes -= queue.pop().size
            buffer.users -= 1
        if not queue and not self.in_flight:
            self.acknowledged_offset = max(self.acknowledged_offset, stop)
            return
        tail = (queue or self.in_flight)[-1]
        if tail.buffer is buffer and tail.header.last_offset >= stop and not tail.is_stamped:
            tail.end_offset = tail.after = stop
            tail.repack_reason = tail.repack_reason or reason
        else:
            tail.after = max(tail.after, stop)

    def read_again_from(self, offset: int) -> None:
        """Fetch from this upstream offset on; what was read after it is dropped."""
        self.next_fetch = offset
        self.skipped.read_again_from(offset)

    # -- the queue

    def enqueue(self, batch: PendingBatch) -> None:
        """Queue a batch of an internal topic."""
        self.queue.append(batch)
        self.queued_bytes += batch.size

    def take_first(self) -> PendingBatch:
        batch = self.queue.popleft()
        self.queued_bytes -= batch.size
        return batch

    def put_first(self, batches: Sequence[PendingBatch]) -> None:
        """Insert rebuilt batches in front of the queue."""
        self.queue.extendleft(reversed(batches))
        self.queued_bytes += sum([batch.size for batch in batches])

    def put_last(self, batches: Sequence[PendingBatch]) -> None:
        """Append batches that were taken from the queue or rebuilt."""
        self.queue.extend(batches)
        self.queued_bytes += sum([batch.size for batch in batches])

    def take_before(self, at: int) -> list[PendingBatch]:
        """Remove the batches before this index of the queue that are not stamped."""
        queued = list(self.queue)
        taken = [batch for batch in queued[:at] if not batch.is_stamped]
        kept = [batch for batch in queued[:at] if batch.is_stamped] + queued[at:]
        self.queue.clear()
        self.queue.extend(kept)
        self.queued_bytes -= sum([batch.size for batch in taken])
        return taken

    def replace_queued(
        self, at: int, batches: Sequence[PendingBatch], built: Sequence[PendingBatch], after: int
    ) -> None:
        """Replace queued batches, from this index on, by what the rules left of their records.

        `after` is the offset that follows everything that the rules have seen.
        """
        queued = list(self.queue)
        self.queue.clear()
        self.queue.extend([*queued[:at], *built, *queued[at + len(batches) :]])
        self.queued_bytes += sum([batch.size for batch in built])
        self.queued_bytes -= sum([batch.size for batch in batches])
        epoch = batches[-1].leader_epoch
        behind: list[PendingBatch] = [*built] or queued[:at]
        if not behind:
            # A returned batch may be older than one in flight.
            behind = sorted([*self.in_flight, *self.to_retry], key=_first_offset)
        if behind:
            behind[-1].after, behind[-1].leader_epoch = after, epoch
        else:
            self.acknowledged_offset = max(self.acknowledged_offset, after)
            self.acknowledged_epoch = epoch

    def drop_unstamped(self) -> list[PendingBatch]:
        """Remove queued batches that are not stamped."""
        dropped = [batch for batch in self.queue if not batch.is_stamped]
        if dropped:
            kept = [batch for batch in self.queue if batch.is_stamped]
            self.queue.clear()
            self.queue.extend(kept)
            self.queued_bytes = sum([batch.size for batch in kept])
        return dropped

    def skip_batch(self, batch: PendingBatch) -> None:
        """Nothing of this batch is written: the position moves, but not past batches in flight."""
        if self.in_flight:
            tail = self.in_flight[-1]
            tail.after, tail.leader_epoch = batch.after, batch.leader_epoch
        else:
            self.acknowledged_offset = max(self.acknowledged_offset, batch.after)
            self.acknowledged_epoch = batch.leader_epoch

    # -- in flight

    def sent(self, batch: PendingBatch) -> None:
        self.in_flight.append(batch)

    def answered(self) -> None:
        """The oldest batch in flight has a response."""
        self.in_flight.popleft()

    def undo_send(self) -> None:
        """The newest batch in flight was not sent."""
        self.in_flight.pop()

    def return_batch(self, batch: PendingBatch) -> None:
        """A batch that was not acknowledged is sent again, once nothing is in flight."""
        self.to_retry.append(batch)

    def requeue(self) -> None:
        """Move returned batches to the front of the queue, in their order."""
        self.put_first(self.to_retry)
        self.to_retry.clear()


def _first_offset(batch: PendingBatch) -> int:
    return batch.first
