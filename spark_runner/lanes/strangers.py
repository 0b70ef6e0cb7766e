"""Looks at a hole between our own batches on the target: who wrote there, at which offsets.

Holes are rare (a transaction that was given up, a fence, a stranger), and integers compared at each
acknowledgement find them; only then is the target read, headers alone. Nothing here stops copying:
what cannot be looked at now is looked at after a later commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator

from mirrors.domain.continuity.strangers import Hole, Seen, strangers
from mirrors.domain.errors import UnderstudyError
from spark_runner.lanes.scan import Filter
from spark_runner.lanes.track import Track
from spark_runner.wire import fetch
from spark_runner.wire.batch import CONTROL
from spark_runner.wire.cluster import ClusterClient, Leader
from spark_runner.wire.codes import Code
from spark_runner.wire.connection import Connection
from spark_runner.wire.peek import peek
from spark_runner.wire.records import batches, read_header
from spark_runner.wire.transactions import Identity

log = logging.getLogger(__name__)

LOOK_S = 3.0
# A stranger who never stops must not make us read the target all the time.
EVERY_S = 2.0
_BYTES = 1 << 20


class Strangers:
    """One for a slice; `watches` is false where others write the same topics on purpose."""

    def __init__(self, target: ClusterClient, identity: Identity, *, watches: bool) -> None:
        self._target = target
        self._identity = identity
        self._watches = watches
        self._own: set[int] = set()
        self._again_at = 0.0

    def look(self, tracks: Iterable[Track], now: float, *, last: bool = False) -> None:
        """After a commit; `last`: nobody will ask again."""
        holed = [track for track in tracks if track.holes]
        self._own.add(self._identity.producer_id)
        if not holed:
            return
        if not self._watches or self._identity.is_anonymous:
            # Without a lasting id, what we wrote before a restart looks like a stranger's.
            for track in holed:
                track.holes.clear()
            return
        if now < self._again_at and not last:
            return
        self._again_at = now + EVERY_S
        deadline = time.monotonic() + LOOK_S
        try:
            for track in holed:
                self._look_into(track, deadline)
        except UnderstudyError as error:
            log.warning("a hole in what we wrote is not looked at yet: %s", error.message)

    def _look_into(self, track: Track, deadline: float) -> None:
        view = self._target.describe([track.remote_topic], deadline)[track.remote_topic]
        leader = view.leaders.get(track.partition)
        if view.error or leader is None or leader.node < 0 or view.topic_id != track.remote_id:
            return
        link = self._target.link(leader.node, "strangers", deadline)
        try:
            while track.holes:
                hole = Hole(*track.holes[0])
                seen = self._read(link, track, hole, leader, deadline)
                if seen is None:
                    return
                track.strangers += strangers(hole, seen, self._own)
                track.holes.pop(0)
        finally:
            self._target.drop(link)

    def _read(
        self, link: Connection, track: Track, hole: Hole, leader: Leader, deadline: float
    ) -> list[Seen] | None:
        """Its batches; None while a transaction that is still open hides some."""
        topic, epoch = (track.remote_topic, track.remote_id), leader.epoch
        found: list[Seen] = []
        at = hole.first
        while at < hole.stop:
            frame, reply = peek(
                link,
                topic,
                track.partition,
                at,
                until=deadline,
                leader_epoch=epoch,
                most_bytes=_BYTES,
            )
            before = at
            for row in reply.partitions:
                if row.error == Code.OFFSET_OUT_OF_RANGE:
                    return found  # deleted there meanwhile: nobody reads it any more
                if row.error:
                    return None
                for seen in _headers(row, frame):
                    at = max(at, seen.last + 1)
                    found.append(seen)
            if at == before:
                return None
        return found


def _headers(row: fetch.Fetched, frame: memoryview) -> Iterator[Seen]:
    """Every batch of a reply; one of an aborted transaction with no record in it."""
    aborted = Filter(row.aborted)
    for batch in batches(frame[row.start : row.stop]):
        header = read_header(batch)
        control = bool(header.attributes & CONTROL)
        if control:
            aborted.ended(header)
        void = not control and aborted.drops(header)
        records = 0 if void else header.records
        yield Seen(header.base_offset, header.last_offset, records, header.producer_id, control)
