"""The source side of a slice: one fetch session and one request in flight per source broker.

The next request goes out as soon as a reply's headers were walked and a buffer is free, so the
source works while the target is written. A partition in error leaves its session (a session repeats
it in every reply) and is asked for again after a while, at its new leader if it has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.lanes.arena import Arena, Arenas
from spark_runner.lanes.bounded import trim
from spark_runner.lanes.feeder import Feeder, FetchLimits
from spark_runner.lanes.outage import Outage
from spark_runner.lanes.replicated import Part, Replicated
from spark_runner.lanes.scan import scan
from spark_runner.lanes.source_trouble import Bench
from spark_runner.lanes.throttle import Throttle
from spark_runner.lanes.track import Track, Verdict
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import Code
from spark_runner.wire.fetch import READ_COMMITTED, Fetched

_RETRY_S = 0.2
_LOOK_S = 3.0


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
        self._cluster = cluster
        self._arenas = arenas
        self._limits = limits
        self._offer = offer
        self._stop = stop
        self._bench = Bench(cluster)
        self._feeders: dict[int, Feeder] = {}
        # track -> not before
        self._homeless: dict[Track, float] = dict.fromkeys(tracks, 0.0)
        self._full: set[Track] = set()
        self._look_at = 0.0
        self._outage = Outage(cluster.alias)

    # -- what the loop asks

    def feeders(self) -> Iterable[Feeder]:
        return self._feeders.values()

    def wakes_at(self, now: float) -> float:
        """When there is something to do that no socket tells of."""
        moments = [feeder.retry_at for feeder in self._feeders.values() if feeder.retry_at > now]
        if self._homeless:
            moments.append(self._look_at)
        if any(feeder.arena is None and feeder.members for feeder in self._feeders.values()):
            moments += [moment for moment in [self._throttle.opens_at(now)] if moment > now]
        return min(moments, default=float("inf"))

    def pump(self, now: float) -> None:
        """Send what can be sent: a request to each broker that has none, while buffers last."""
        if self._homeless and now >= self._look_at:
            self._find_homes(now)
        if self._full:
            for track in [track for track in self._full if not self._is_full(track)]:
                self._full.discard(track)
                self._want(track)
        for feeder in sorted(self._feeders.values(), key=_asked_longest_ago):
            if feeder.arena is None and feeder.members and now >= feeder.retry_at:
                if self._throttle.opens_at(now) > now or (arena := self._arenas.take()) is None:
                    return
                if self._precedence is not None:
                    self._precedence.arrange(feeder)
                try:
                    feeder.ask(arena, now, self._throttle.most(self._limits.max_bytes))
                except KafkaUnavailable as error:
                    self._lost(feeder, now, error)

    def receive(self, feeder: Feeder, now: float) -> None:
        """Read the reply that is there, and ask for more at once."""
        try:
            arena, rows = feeder.read(self._arenas, now)
            stopped = self._judge(feeder, arena, rows)
        except KafkaUnavailable as error:
            self._lost(feeder, now, error)
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
        self._outage.over()
        self.pump(now)

    def _judge(self, feeder: Feeder, arena: Arena, rows: list[Fetched]) -> dict[Track, Verdict]:
        """Find what other flows wrote; the partitions where that cannot be told."""
        if self._replicated is None:
            return {}
        parts = [
            Part(track, arena, row.start, row.stop)
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
        for feeder in list(self._feeders.values()):
            if feeder.arena is not None and now - feeder.sent_at > patience:
                self._lost(feeder, now, None)

    def closed(self, feeder: Feeder, now: float) -> None:
        """The broker closed a connection on which nothing was asked."""
        self._lost(feeder, now, None)

    def leave(self, track: Track) -> None:
        """Read this partition no more."""
        self._homeless.pop(track, None)
        self._full.discard(track)
        self._forget(track)

    def join(self, track: Track) -> None:
        """Read this partition (again), from its `next_fetch` on."""
        if not track.is_read:
            self._homeless[track] = 0.0
            self._look_at = 0.0

    def restart(self, tracks: Iterable[Track]) -> None:
        """Begin anew at the tracks' positions: what is in flight means nothing now."""
        for feeder in self._feeders.values():
            self._close(feeder)
        self._feeders.clear()
        if self._precedence is not None:
            self._precedence.clear()
        self._full.clear()
        self._homeless = dict.fromkeys(tracks, 0.0)
        self._look_at = 0.0

    @property
    def reads_by_name(self) -> bool:
        """Whether somebody has to check, before a commit, that the topics are still the same."""
        return any(feeder.by_name for feeder in self._feeders.values())

    # -- one reply

    def _take(self, track: Track, row: Fetched, arena: Arena, now: float) -> None:
        if row.error:
            self._trouble(track, row.error, now)
            return
        if row.diverging is not None and row.diverging[1] < track.next_fetch:
            self._stop(track, self._bench.diverged(track, *row.diverging))
            return
        self._bench.settled(track)
        track.end, track.stable_end = row.high_watermark, row.stable_offset
        before = track.next_fetch
        if row.stop > row.start and scan(track, arena, row.start, row.stop, row.aborted):
            trim(track, arena)
            self._offer(track)
        if self._precedence is not None:
            committed = self._limits.isolation == READ_COMMITTED
            self._precedence.read(track, row.stable_offset if committed else row.high_watermark)
        self.moves_quietly = self.moves_quietly or bool(track.left_out) or track.is_read
        if track.is_read:
            self.leave(track)
            return
        if self._is_full(track):
            self._full.add(track)
            self._forget(track)
        elif track.next_fetch != before:
            self._want(track)

    def _is_full(self, track: Track) -> bool:
        return track.queued_bytes > self._limits.queue_bytes

    def _want(self, track: Track) -> None:
        feeder = self._feeders.get(track.source_node)
        if feeder is None:
            self._homeless.setdefault(track, 0.0)
        else:
            feeder.want(track)

    def _forget(self, track: Track) -> None:
        feeder = self._feeders.get(track.source_node)
        if feeder is not None:
            feeder.forget(track)

    def _trouble(self, track: Track, number: int, now: float) -> None:
        self._forget(track)
        self._homeless.pop(track, None)
        verdict = self._bench.judge(track, number, now)
        if verdict is not None:
            self._stop(track, verdict)
        else:
            self._homeless[track] = now + _RETRY_S
            self._look_at = min(self._look_at, now + _RETRY_S)

    # -- connections and leaders

    def _lost(self, feeder: Feeder, now: float, error: KafkaUnavailable | None) -> None:
        """The connection is gone: its tracks look for their leaders, in case these have moved."""
        if self._feeders.get(feeder.node) is not feeder:
            return
        self._close(feeder)
        del self._feeders[feeder.node]
        self._homeless.update(dict.fromkeys(feeder.members.values(), now + _RETRY_S))
        self._look_at = now + _RETRY_S
        self._outage.note(now, error)

    def _close(self, feeder: Feeder) -> None:
        self._cluster.drop(feeder.link)
        if feeder.arena is not None:
            self._arenas.give_back(feeder.arena)
            feeder.arena = None

    def _find_homes(self, now: float) -> None:
        """Ask who leads the partitions without a feeder, and check that they are still the same."""
        self._look_at = now + _RETRY_S
        waiting = [track for track, until in self._homeless.items() if until <= now]
        if not waiting:
            return
        names = dict.fromkeys(track.topic for track in waiting)
        try:
            views = self._cluster.describe(names, time.monotonic() + _LOOK_S)
        except KafkaUnavailable as error:
            self._outage.note(now, error)
            return
        for track in waiting:
            view = views.get(track.topic)
            leader = view.leaders.get(track.partition) if view is not None else None
            if view is None or view.error or leader is None:
                number = view.error if view is not None and view.error else 0
                self._trouble(track, number or Code.UNKNOWN_TOPIC_OR_PARTITION, now)
            elif view.topic_id != track.source_id:
                self._trouble(track, Code.UNKNOWN_TOPIC_ID, now)
            elif leader.node < 0:
                self._trouble(track, Code.LEADER_NOT_AVAILABLE, now)
            else:
                self._settle(track, leader.node, leader.epoch, now)

    def _settle(self, track: Track, node: int, epoch: int, now: float) -> None:
        feeder = self._feeders.get(node)
        if feeder is None:
            try:
                link = self._cluster.link(node, "fetch", now + _LOOK_S)
            except KafkaUnavailable as error:
                self._outage.note(now, error)
                self._trouble(track, Code.BROKER_NOT_AVAILABLE, now)
                return
            feeder = self._feeders[node] = Feeder(node, link, self._limits)
        del self._homeless[track]
        track.source_node, track.source_epoch = node, epoch
        if self._is_full(track):
            self._full.add(track)
        else:
            feeder.want(track)


def _asked_longest_ago(feeder: Feeder) -> float:
    return feeder.sent_at
