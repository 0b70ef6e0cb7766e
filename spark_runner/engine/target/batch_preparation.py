"""Prepares the next batch of a partition: verifies it, repacks it if necessary, stamps it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from spark_runner.engine.batches import repack
from spark_runner.engine.batches.header_scan import REJECTED, SMALL, TOO_LARGE
from spark_runner.engine.batches.record_bytes import GroupTooLarge
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import SMALL_BYTES
from spark_runner.engine.target import errors
from spark_runner.kafka_protocol.batch_header import BatchStamper, checksum_holds
from spark_runner.native.crc32c import address_of

# The number of small waiting batches from which on they are merged.
SMALL_LEAST: Final = 4


class BatchPreparer:
    """The only user of the stamper.

    `stop_reading` receives partitions that stop at a batch.
    """

    def __init__(
        self,
        stamper: BatchStamper,
        buffers: ReceiveBuffers,
        target: str,
        *,
        merged_bytes: int,
        small_bytes: int = SMALL_BYTES,
        stop_reading: Callable[[Partition], None],
    ) -> None:
        # Receives partitions whose first batch no rule has seen.
        self.evaluate: Callable[[Partition], None] | None = None
        self._stamper = stamper
        self._buffers = buffers
        self._target = target
        self._merged_bytes = merged_bytes
        # Smaller batches are merged while several wait.
        self._small_bytes = small_bytes
        self._stop_reading = stop_reading

    def next(self, partition: Partition) -> PendingBatch | None:
        """Remove the next batch from the queue. None: the queue is empty, or the partition stops
        here."""
        queue = partition.queue
        while queue:
            batch = queue[0]
            if not batch.is_stamped:
                if partition.rule >= 0 and not batch.is_evaluated and self.evaluate is not None:
                    self.evaluate(partition)
                    return None
                if batch.split_at:
                    if not self._split(partition, batch):
                        return None
                    continue
                if (
                    (
                        batch.size < self._small_bytes
                        or batch.repack_reason
                        or partition.suspect_offset >= 0
                    )
                    and batch.buffer is not None
                    and self._wants_repack(partition, batch)
                ):
                    if not self._repack(partition):
                        return None
                    continue
                at, memory = batch.at, batch.memory
                self._stamper.write(memory, at, batch.header, partition.sequences)
                batch.view = memory[at : at + batch.size]
                batch.is_stamped = True
            return partition.take_first()
        return None

    def _wants_repack(self, partition: Partition, batch: PendingBatch) -> bool:
        if batch.first == partition.suspect_offset:
            batch.repack_reason = REJECTED
        if batch.repack_reason:
            return True
        queue = partition.queue
        if (
            batch.size < self._small_bytes
            and len(queue) >= SMALL_LEAST
            and queue[1].size < self._small_bytes
            and queue[1].buffer is not None
            and queue[1].is_evaluated == batch.is_evaluated
        ):
            batch.repack_reason = SMALL
            return True
        return False

    def _split(self, partition: Partition, batch: PendingBatch) -> bool:
        """Split a rejected batch. False: the partition stops here."""
        if not is_intact(batch):
            self.stop_at_corrupt_batch(partition, batch, "its checksum is wrong")
            return False
        try:
            built = repack.split(batch, partition.settings)
        except repack.CorruptBatch as error:
            self.stop_at_corrupt_batch(partition, batch, str(error))
            return False
        partition.take_first()
        partition.put_first(built)
        self._release(batch)
        return True

    def _repack(self, partition: Partition) -> bool:
        """Rebuild the first batches of the queue. False: the partition stops here."""
        queued = self._group(partition)
        # A batch that was too large would be too large again.
        merged = (
            None
            if queued[0].repack_reason == TOO_LARGE
            else repack.merge_whole(queued, partition.settings)
        )
        if merged is not None:
            self._remove_first(partition, queued)
            partition.put_first([merged])
            return True
        # Batches before a damaged one are written first.
        group = list(itertools.takewhile(is_intact, queued))
        if not group:
            self.stop_at_corrupt_batch(partition, queued[0], "its checksum is wrong")
            return False
        while True:
            try:
                built, too_large = repack.rebuild(group, partition.settings)
                break
            except GroupTooLarge as enough:
                del group[enough.batches :]
            # Under another name: mypyc gives a variable one type.
            except repack.CorruptBatch as corrupt:
                if not corrupt.batch:
                    self.stop_at_corrupt_batch(partition, group[0], str(corrupt))
                    return False
                del group[corrupt.batch :]
        self._remove_first(partition, group)
        if too_large is not None:
            offset, size = too_large
            self.stop_at(partition, errors.too_large(partition, offset, size, self._target))
        partition.put_first(built)
        if not built and too_large is None:
            partition.skip_batch(group[-1])
        return bool(built) or too_large is None

    def _group(self, partition: Partition) -> list[PendingBatch]:
        """The first batch and those that are merged with it."""
        queue = partition.queue
        group = [queue[0]]
        if queue[0].repack_reason in (REJECTED, TOO_LARGE):
            return group
        most = min(self._merged_bytes, partition.settings.most_bytes or self._merged_bytes)
        size = queue[0].size
        for batch in itertools.islice(queue, 1, None):
            if (
                batch.is_stamped
                or batch.buffer is None
                or batch.is_evaluated != queue[0].is_evaluated
            ):
                break
            if batch.repack_reason:
                if batch.repack_reason in (REJECTED, TOO_LARGE):
                    break
            elif batch.size >= self._small_bytes:
                break
            size += batch.size
            if size > most:
                break
            group.append(batch)
        return group

    def _remove_first(self, partition: Partition, group: list[PendingBatch]) -> None:
        """Remove the group from the front of the queue; release its buffers in runs of the same
        buffer."""
        buffer, users = group[0].buffer, 0
        for batch in group:
            partition.take_first()
            if batch.buffer is not buffer:
                if buffer is not None:
                    self._buffers.release(buffer, users)
                buffer, users = batch.buffer, 0
            users += 1
        if buffer is not None:
            self._buffers.release(buffer, users)

    def stop_at_corrupt_batch(self, partition: Partition, batch: PendingBatch, what: str) -> None:
        """Stop the partition at this batch, its first in the queue."""
        # Only the batch directly after it shows where it ends: its own length may be damaged.
        following = next(itertools.islice(partition.queue, 1, None), None)
        behind = None
        if (
            following is not None
            and following.buffer is batch.buffer
            and following.at == batch.at + batch.size
            and following.header[3] == 2
            and is_intact(following)
        ):
            behind = following.header[0]
        self.stop_at(partition, errors.corrupt(partition, batch.first, what, behind))

    def stop_at(self, partition: Partition, stop_reason: StopReason) -> None:
        """Stop the partition at this batch.

        Batches before it are still written. What was read after it is dropped, and what a pending
        reply brings: writing it would commit a position past the batch.
        """
        partition.drain(stop_reason)
        self.discard_queued(partition)
        self._stop_reading(partition)

    def discard_queued(self, partition: Partition) -> None:
        """Drop queued batches that are not stamped."""
        for batch in partition.drop_unstamped():
            self._release(batch)

    def evict(self, partition: Partition) -> None:
        """Free the buffers of a stalled partition, so that the others continue.

        Stamped batches move to memory of their own. The rest is read again later, together with the
        reason to stop behind it: that may lie elsewhere by then.
        """
        self.discard_queued(partition)
        for batch in partition.queue:
            if batch.buffer is not None and batch.view is not None:
                copy = bytearray(batch.view)
                self._release(batch)
                batch.memory, batch.at = memoryview(copy), 0
                batch.address = address_of(copy)
                batch.view = batch.memory
                batch.buffer = None
        partition.read_again_from(
            partition.queue[-1].after if partition.queue else partition.acknowledged_offset
        )

    def _release(self, batch: PendingBatch) -> None:
        if batch.buffer is not None:
            self._buffers.release(batch.buffer)


def is_intact(batch: PendingBatch) -> bool:
    """Whether the checksum holds; checked before the body is read. Stamping updates the checksum,
    so the result is the same before and after."""
    return batch.header[3] != 2 or checksum_holds(batch.memory, batch.at, batch.address, batch.size)
