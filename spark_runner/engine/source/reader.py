"""The source side of a slice: one fetch session and one request in flight per source broker.

The next request goes out as soon as a reply's headers were walked and a buffer is free, so the
source works while the target is written. `sources.py` knows whom to ask for which partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.engine.batches.header_scan import CUT, scan
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.receive_buffers import Arena, Arenas
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.source.fetch_connection import Feeder, FetchLimits
from spark_runner.engine.source.leaders import Sources
from spark_runner.engine.source.replicated_filter import Part, Replicated
from spark_runner.engine.source.throttle import Throttle
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.fetch import READ_COMMITTED, Fetched


def trim(track: Track, arena: Arena) -> None:
    """Asked after each scan: does nothing before the track's end is reached."""
    stop = track.stop_at
    if stop is None or track.next_fetch < stop:
        return
    queue = track.queue
    # By `first`: an old wrapper's header has the offset of its last message.
    while queue and queue[-1].arena is arena and queue[-1].first >= stop:
        parcel = queue.pop()
        track.queued_bytes -= parcel.size
        arena.users -= 1
    if not queue and not track.flying:
        track.done = max(track.done, stop)
        return
    tail = (queue or track.flying)[-1]
    if tail.arena is arena and tail.header.last_offset >= stop and not tail.stamped:
        tail.until = tail.after = stop
        tail.why = tail.why or CUT
    else:
        tail.after = max(tail.after, stop)


class Intake:
    """All feeders of a slice.

    `offer` is told of tracks that have something to send, `stop` of those that cannot go on.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        tracks: Iterable[Track],
        arenas: Arenas,
        limits: FetchLimits,
        *,
        offer: Callable[[Track], None],
        stop: Callable[[Track, Verdict], None],
        throttle: Throttle,
        replicated: Replicated | None = None,
    ) -> None:
        self._throttle = throttle
        self._precedence = throttle.precedence
        self._replicated = replicated
        # A position that somebody waits for moves without a record: left out, or at its end.
        self.moves_quietly = False
        self._arenas = arenas
        self._limits = limits
        self._offer = offer
        self._stop = stop
        self._sources = Sources(cluster, tracks, arenas, limits, stop)
        self._full: set[Track] = set()

    # -- what the loop asks

    def feeders(self) -> Iterable[Feeder]:
        return self._sources.feeders.values()

    def wakes_at(self, now: float) -> float:
        """When there is something to do that no socket tells of."""
        moments = [self._sources.wakes_at()]
        moments += [feeder.retry_at for feeder in self.feeders() if feeder.retry_at > now]
        if any(feeder.arena is None and feeder.members for feeder in self.feeders()):
            moments += [moment for moment in [self._throttle.opens_at(now)] if moment > now]
        return min(moments)

    def pump(self, now: float) -> None:
        """Send what can be sent: a request to each broker that has none, while buffers last."""
        for track in self._sources.look(now):
            if self._is_full(track):
                # Its leader is there, and is asked for nothing until the target has caught up.
                self._sources.bench.settled(track)
                self._full.add(track)
            else:
                self._sources.want(track)
        if self._full:
            for track in [track for track in self._full if not self._is_full(track)]:
                self._full.discard(track)
                self._sources.want(track)
        for feeder in sorted(self.feeders(), key=_asked_longest_ago):
            if feeder.arena is None and feeder.members and now >= feeder.retry_at:
                if self._throttle.opens_at(now) > now or (arena := self._arenas.take()) is None:
                    return
                if self._precedence is not None:
                    self._precedence.arrange(feeder)
                try:
                    feeder.ask(arena, now, self._throttle.most(self._limits.max_bytes))
                except KafkaUnavailable as error:
                    self._sources.lost(feeder, now, error)

    def receive(self, feeder: Feeder, now: float) -> None:
        """Read of the reply what is there; with all of it, ask for more at once."""
        try:
            read = feeder.read(now)
            if read is None:
                return
            arena, rows = read
            stopped = self._judge(feeder, arena, rows)
        except KafkaUnavailable as error:
            self._sources.lost(feeder, now, error)
            return
        self._throttle.took(sum(row.stop - row.start for row in rows), now)
        if self._precedence is not None:
            self._precedence.heard(feeder, rows)
        for row in rows:
            track = feeder.members.get((row.key, row.partition))
            if track is None:
                continue
            if track in stopped:
                self._stop(track, stopped[track])
            else:
                self._take(track, row, arena, now)
        if not arena.users:
            self._arenas.give_back(arena)
        self._sources.outage.over()
        self.pump(now)

    def _judge(self, feeder: Feeder, arena: Arena, rows: list[Fetched]) -> dict[Track, Verdict]:
        """Find what other flows wrote; the partitions where that cannot be told."""
        if self._replicated is None:
            return {}
        committed = self._limits.isolation == READ_COMMITTED
        parts = [
            Part(track, arena, row.start, row.stop, row.aborted if committed else None)
            for row in rows
            if row.stop > row.start
            and not row.error
            and (track := feeder.members.get((row.key, row.partition))) is not None
        ]
        try:
            return self._replicated.judge(parts)
        except BaseException:
            self._arenas.give_back(arena)
            raise

    def give_up_overdue(self, now: float) -> None:
        """No reply long after the broker's own wait: the connection is of no use any more."""
        patience = self._limits.request_s + self._limits.max_wait_ms / 1000
        for feeder in list(self.feeders()):
            if feeder.is_overdue(now, patience):
                self._sources.lost(feeder, now, None)

    def closed(self, feeder: Feeder, now: float) -> None:
        """The broker closed a connection on which nothing was asked."""
        self._sources.closed(feeder, now)

    def leave(self, track: Track) -> None:
        """Read this partition no more."""
        self._full.discard(track)
        self._sources.leave(track)

    def join(self, track: Track) -> None:
        """Read this partition (again), from its `next_fetch` on."""
        self._sources.bench.settled(track)
        if not track.is_read:
            self._sources.join(track)

    def restart(self, tracks: Iterable[Track]) -> None:
        """Begin anew at the tracks' positions: what is in flight means nothing now."""
        self._sources.restart(tracks)
        if self._precedence is not None:
            self._precedence.clear()
        self._full.clear()

    @property
    def reads_by_name(self) -> bool:
        return self._sources.reads_by_name

    # -- one reply

    def _take(self, track: Track, row: Fetched, arena: Arena, now: float) -> None:
        if row.error:
            self._sources.trouble(track, row.error, now)
            return
        if row.diverging is not None:
            self._stop(track, self._sources.bench.diverged(track, *row.diverging))
            return
        self._sources.bench.settled(track)
        track.end, track.stable_end = row.high_watermark, row.stable_offset
        before = track.next_fetch
        if row.stop > row.start and scan(track, arena, row.start, row.stop, row.aborted):
            trim(track, arena)
            self._offer(track)
        if self._precedence is not None:
            committed = self._limits.isolation == READ_COMMITTED
            self._precedence.read(track, row.stable_offset if committed else row.high_watermark)
        self.moves_quietly = self.moves_quietly or bool(track.left_out.passed) or track.is_read
        if track.is_read:
            self.leave(track)
            return
        if self._is_full(track):
            self._full.add(track)
            self._sources.forget(track)
        elif track.next_fetch != before:
            self._sources.want(track)

    def _is_full(self, track: Track) -> bool:
        return track.queued_bytes > self._limits.queue_bytes


def _asked_longest_ago(feeder: Feeder) -> float:
    return feeder.sent_at
