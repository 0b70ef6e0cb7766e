"""The next batch of a partition for the wire: checked, repacked if need be, stamped as ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from spark_runner.engine.batches import repack
from spark_runner.engine.batches.header_scan import REFUSED, SMALL, TOO_LARGE
from spark_runner.engine.batches.record_bytes import Enough
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.pending_batch import Parcel
from spark_runner.engine.model.receive_buffers import Arenas
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.target import errors
from spark_runner.kafka_protocol.batch_header import BatchStamper, checksum_holds
from spark_runner.kafka_protocol.crc32c import address_of

# Below this a batch costs the target's broker more than repacking costs us, and one batch per
# request and partition is slow: merged when several of them wait.
SMALL_BYTES: Final = 12 << 10
SMALL_LEAST: Final = 4


class Preparer:
    """Owns the pen: nothing is stamped anywhere else.

    `leave` is told of tracks that end at a batch, of which no more is to be read.
    """

    def __init__(
        self,
        pen: BatchStamper,
        arenas: Arenas,
        target: str,
        *,
        merged_bytes: int,
        leave: Callable[[Track], None],
    ) -> None:
        self._pen = pen
        self._arenas = arenas
        self._target = target
        self._merged_bytes = merged_bytes
        self._leave = leave

    def next(self, track: Track) -> Parcel | None:
        """Taken from the queue; None when nothing is left, or the track ends here."""
        queue = track.queue
        while queue:
            parcel = queue[0]
            if not parcel.stamped:
                if parcel.cuts:
                    if not self._cut(track, parcel):
                        return None
                    continue
                if (
                    (parcel.size < SMALL_BYTES or parcel.why or track.suspect >= 0)
                    and parcel.arena is not None
                    and self._wants_repack(track, parcel)
                ):
                    if not self._repack(track):
                        return None
                    continue
                at, memory = parcel.at, parcel.memory
                self._pen.write(memory, at, parcel.header, track.sequences)
                parcel.view = memory[at : at + parcel.size]
                parcel.stamped = True
            queue.popleft()
            track.queued_bytes -= parcel.size
            return parcel
        return None

    def _wants_repack(self, track: Track, parcel: Parcel) -> bool:
        if parcel.first == track.suspect:
            parcel.why = REFUSED
        if parcel.why:
            return True
        queue = track.queue
        if (
            parcel.size < SMALL_BYTES
            and len(queue) >= SMALL_LEAST
            and queue[1].size < SMALL_BYTES
            and queue[1].arena is not None
        ):
            parcel.why = SMALL
            return True
        return False

    def _cut(self, track: Track, parcel: Parcel) -> bool:
        """Take a refused batch apart; False when the track ends here."""
        if not _is_sound(parcel):
            self._damaged(track, parcel, "its checksum does not hold")
            return False
        try:
            built = repack.split(parcel, track.policy)
        except repack.Damaged as error:
            self._damaged(track, parcel, str(error))
            return False
        track.queue.popleft()
        track.queue.extendleft(reversed(built))
        track.queued_bytes += sum(part.size for part in built) - parcel.size
        self._release(parcel)
        return True

    def _repack(self, track: Track) -> bool:
        """Rebuild the first parcels of the queue; False when the track ends here."""
        queued = self._group(track)
        # One that is too large would be so again.
        merged = None if queued[0].why == TOO_LARGE else repack.merge(queued, track.policy)
        if merged is not None:
            self._take_off(track, queued)
            track.queue.appendleft(merged)
            track.queued_bytes += merged.size
            return True
        # What lies before a damaged one crosses first.
        group = list(itertools.takewhile(_is_sound, queued))
        if not group:
            self._damaged(track, queued[0], "its checksum does not hold")
            return False
        while True:
            try:
                built, too_large = repack.rebuild(group, track.policy)
                break
            except Enough as enough:
                del group[enough.parcels :]
            # Under another name: machine code has one type for each.
            except repack.Damaged as damaged:
                if not damaged.parcel:
                    self._damaged(track, group[0], str(damaged))
                    return False
                del group[damaged.parcel :]
        self._take_off(track, group)
        if too_large is not None:
            offset, size = too_large
            self._end(track, errors.too_large(track, offset, size, self._target))
        track.queue.extendleft(reversed(built))
        track.queued_bytes += sum(parcel.size for parcel in built)
        if not built and too_large is None:
            go_past(track, group[-1])
        return bool(built) or too_large is None

    def _group(self, track: Track) -> list[Parcel]:
        """The first parcel and what follows it into the same batch."""
        queue = track.queue
        group = [queue[0]]
        if queue[0].why in (REFUSED, TOO_LARGE):
            return group
        most = min(self._merged_bytes, track.policy.most_bytes or self._merged_bytes)
        size = queue[0].size
        for parcel in itertools.islice(queue, 1, None):
            if parcel.stamped or parcel.arena is None:
                break
            if parcel.why:
                if parcel.why in (REFUSED, TOO_LARGE):
                    break
            elif parcel.size >= SMALL_BYTES:
                break
            size += parcel.size
            if size > most:
                break
            group.append(parcel)
        return group

    def _take_off(self, track: Track, group: list[Parcel]) -> None:
        """The group leaves the front of the queue; its buffers are counted by stretches."""
        arena, users, size = group[0].arena, 0, 0
        for parcel in group:
            track.queue.popleft()
            size += parcel.size
            if parcel.arena is not arena:
                if arena is not None:
                    self._arenas.release(arena, users)
                arena, users = parcel.arena, 0
            users += 1
        if arena is not None:
            self._arenas.release(arena, users)
        track.queued_bytes -= size

    def _damaged(self, track: Track, parcel: Parcel, what: str) -> None:
        # Only what lies directly behind it says where it ends: its own numbers may be damaged too.
        following = next(itertools.islice(track.queue, 1, None), None)
        behind = None
        if (
            following is not None
            and following.arena is parcel.arena
            and following.at == parcel.at + parcel.size
            and following.header[3] == 2
            and _is_sound(following)
        ):
            behind = following.header[0]
        self._end(track, errors.damaged(track, parcel.first, what, behind))

    def _end(self, track: Track, verdict: Verdict) -> None:
        """What is before this still crosses, what is behind it not: neither what was read, nor what
        a reply on its way brings, which would count as copied with all that lies before it."""
        track.ending = verdict
        self.discard(track)
        self._leave(track)

    def discard(self, track: Track) -> None:
        """Forget what is queued and not stamped."""
        kept = [parcel for parcel in track.queue if parcel.stamped]
        for parcel in track.queue:
            if not parcel.stamped:
                self._release(parcel)
        track.queue.clear()
        track.queue.extend(kept)
        track.queued_bytes = sum(parcel.size for parcel in kept)

    def evict(self, track: Track) -> None:
        """The track is stuck: give its buffers back, so that the others go on.

        What was stamped moves to memory of its own; the rest is read again later, and with it what
        was to end the track behind it: by then that may lie elsewhere.
        """
        self.discard(track)
        track.ending = None
        for parcel in track.queue:
            if parcel.arena is not None and parcel.view is not None:
                copy = bytearray(parcel.view)
                self._release(parcel)
                parcel.memory, parcel.at = memoryview(copy), 0
                parcel.address = address_of(copy)
                parcel.view = parcel.memory
                parcel.arena = None
        track.read_again_from(track.queue[-1].after if track.queue else track.done)

    def _release(self, parcel: Parcel) -> None:
        if parcel.arena is not None:
            self._arenas.release(parcel.arena)


def go_past(track: Track, parcel: Parcel) -> None:
    """It was first in the queue and nothing of it crosses: the position moves, but not past what
    is still on its way."""
    if track.flying:
        track.flying[-1].after, track.flying[-1].epoch = parcel.after, parcel.epoch
    else:
        track.done, track.epoch = max(track.done, parcel.after), parcel.epoch


def _is_sound(parcel: Parcel) -> bool:
    """Asked before a body is read. Holds after stamping too, if it held before: it is patched."""
    return parcel.header[3] != 2 or checksum_holds(
        parcel.memory, parcel.at, parcel.address, parcel.size
    )
