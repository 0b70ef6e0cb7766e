"""The next batch of a partition for the wire: checked, repacked if need be, stamped as ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from spark_runner.engine.batches import repack
from spark_runner.engine.batches.header_scan import REFUSED, SMALL, TOO_LARGE
from spark_runner.engine.batches.record_bytes import GroupTooLarge
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.target import errors
from spark_runner.kafka_protocol.batch_header import BatchStamper, checksum_holds
from spark_runner.kafka_protocol.crc32c import address_of

# Below this a batch costs the target's broker more than repacking costs us, and one batch per
# request and partition is slow: merged when several of them wait.
SMALL_BYTES: Final = 12 << 10
SMALL_LEAST: Final = 4


class BatchPreparer:
    """Owns the pen: nothing is stamped anywhere else.

    `leave` is told of tracks that end at a batch, of which no more is to be read.
    """

    def __init__(
        self,
        stamper: BatchStamper,
        buffers: ReceiveBuffers,
        target: str,
        *,
        merged_bytes: int,
        stop_reading: Callable[[Partition], None],
    ) -> None:
        self._stamper = stamper
        self._buffers = buffers
        self._target = target
        self._merged_bytes = merged_bytes
        self._stop_reading = stop_reading

    def next(self, partition: Partition) -> PendingBatch | None:
        """Taken from the queue; None when nothing is left, or the track ends here."""
        queue = partition.queue
        while queue:
            batch = queue[0]
            if not batch.is_stamped:
                if batch.split_at:
                    if not self._split(partition, batch):
                        return None
                    continue
                if (
                    (
                        batch.size < SMALL_BYTES
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
            queue.popleft()
            partition.queued_bytes -= batch.size
            return batch
        return None

    def _wants_repack(self, partition: Partition, batch: PendingBatch) -> bool:
        if batch.first == partition.suspect_offset:
            batch.repack_reason = REFUSED
        if batch.repack_reason:
            return True
        queue = partition.queue
        if (
            batch.size < SMALL_BYTES
            and len(queue) >= SMALL_LEAST
            and queue[1].size < SMALL_BYTES
            and queue[1].buffer is not None
        ):
            batch.repack_reason = SMALL
            return True
        return False

    def _split(self, partition: Partition, batch: PendingBatch) -> bool:
        """Take a refused batch apart; False when the track ends here."""
        if not _is_sound(batch):
            self._damaged(partition, batch, "its checksum does not hold")
            return False
        try:
            built = repack.split(batch, partition.settings)
        except repack.Damaged as error:
            self._damaged(partition, batch, str(error))
            return False
        partition.queue.popleft()
        partition.queue.extendleft(reversed(built))
        partition.queued_bytes += sum(part.size for part in built) - batch.size
        self._release(batch)
        return True

    def _repack(self, partition: Partition) -> bool:
        """Rebuild the first parcels of the queue; False when the track ends here."""
        queued = self._group(partition)
        # One that is too large would be so again.
        merged = (
            None
            if queued[0].repack_reason == TOO_LARGE
            else repack.merge(queued, partition.settings)
        )
        if merged is not None:
            self._remove_first(partition, queued)
            partition.queue.appendleft(merged)
            partition.queued_bytes += merged.size
            return True
        # What lies before a damaged one crosses first.
        group = list(itertools.takewhile(_is_sound, queued))
        if not group:
            self._damaged(partition, queued[0], "its checksum does not hold")
            return False
        while True:
            try:
                built, too_large = repack.rebuild(group, partition.settings)
                break
            except GroupTooLarge as enough:
                del group[enough.batches :]
            # Under another name: machine code has one type for each.
            except repack.Damaged as damaged:
                if not damaged.batch:
                    self._damaged(partition, group[0], str(damaged))
                    return False
                del group[damaged.batch :]
        self._remove_first(partition, group)
        if too_large is not None:
            offset, size = too_large
            self._end_at(partition, errors.too_large(partition, offset, size, self._target))
        partition.queue.extendleft(reversed(built))
        partition.queued_bytes += sum(batch.size for batch in built)
        if not built and too_large is None:
            pass_over(partition, group[-1])
        return bool(built) or too_large is None

    def _group(self, partition: Partition) -> list[PendingBatch]:
        """The first parcel and what follows it into the same batch."""
        queue = partition.queue
        group = [queue[0]]
        if queue[0].repack_reason in (REFUSED, TOO_LARGE):
            return group
        most = min(self._merged_bytes, partition.settings.most_bytes or self._merged_bytes)
        size = queue[0].size
        for batch in itertools.islice(queue, 1, None):
            if batch.is_stamped or batch.buffer is None:
                break
            if batch.repack_reason:
                if batch.repack_reason in (REFUSED, TOO_LARGE):
                    break
            elif batch.size >= SMALL_BYTES:
                break
            size += batch.size
            if size > most:
                break
            group.append(batch)
        return group

    def _remove_first(self, partition: Partition, group: list[PendingBatch]) -> None:
        """The group leaves the front of the queue; its buffers are counted by stretches."""
        buffer, users, size = group[0].buffer, 0, 0
        for batch in group:
            partition.queue.popleft()
            size += batch.size
            if batch.buffer is not buffer:
                if buffer is not None:
                    self._buffers.release(buffer, users)
                buffer, users = batch.buffer, 0
            users += 1
        if buffer is not None:
            self._buffers.release(buffer, users)
        partition.queued_bytes -= size

    def _damaged(self, partition: Partition, batch: PendingBatch, what: str) -> None:
        # Only what lies directly behind it says where it ends: its own numbers may be damaged too.
        following = next(itertools.islice(partition.queue, 1, None), None)
        behind = None
        if (
            following is not None
            and following.buffer is batch.buffer
            and following.at == batch.at + batch.size
            and following.header[3] == 2
            and _is_sound(following)
        ):
            behind = following.header[0]
        self._end_at(partition, errors.damaged(partition, batch.first, what, behind))

    def _end_at(self, partition: Partition, stop_reason: StopReason) -> None:
        """What is before this still crosses, what is behind it not: neither what was read, nor what
        a reply on its way brings, which would count as copied with all that lies before it."""
        partition.ending = stop_reason
        self.discard_queued(partition)
        self._stop_reading(partition)

    def discard_queued(self, partition: Partition) -> None:
        """Forget what is queued and not stamped."""
        kept = [batch for batch in partition.queue if batch.is_stamped]
        for batch in partition.queue:
            if not batch.is_stamped:
                self._release(batch)
        partition.queue.clear()
        partition.queue.extend(kept)
        partition.queued_bytes = sum(batch.size for batch in kept)

    def evict(self, partition: Partition) -> None:
        """The track is stuck: give its buffers back, so that the others go on.

        What was stamped moves to memory of its own; the rest is read again later, and with it what
        was to end the track behind it: by then that may lie elsewhere.
        """
        self.discard_queued(partition)
        partition.ending = None
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


def pass_over(partition: Partition, batch: PendingBatch) -> None:
    """It was first in the queue and nothing of it crosses: the position moves, but not past what
    is still on its way."""
    if partition.in_flight:
        partition.in_flight[-1].after, partition.in_flight[-1].leader_epoch = (
            batch.after,
            batch.leader_epoch,
        )
    else:
        partition.acknowledged_offset, partition.acknowledged_epoch = (
            max(partition.acknowledged_offset, batch.after),
            batch.leader_epoch,
        )


def _is_sound(batch: PendingBatch) -> bool:
    """Asked before a body is read. Holds after stamping too, if it held before: it is patched."""
    return batch.header[3] != 2 or checksum_holds(batch.memory, batch.at, batch.address, batch.size)
