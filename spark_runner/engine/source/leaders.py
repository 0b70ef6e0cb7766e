"""Which source broker leads which partition, and the feeder of each.

A partition in error leaves its session (a session repeats it in every reply) and is asked for again
after a while, at its new leader if it has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from spark_runner.engine.model.broker_availability import Leaderless, Outage
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.receive_buffers import Arenas
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.source.errors import Bench
from spark_runner.engine.source.fetch_connection import Feeder, FetchLimits
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.metadata import leader_or_error

_RETRY_S = 0.2
_LOOK_S = 3.0


class Sources:
    """Of one slice. `stop` is told of tracks that cannot be read on."""

    def __init__(
        self,
        cluster: ClusterClient,
        tracks: Iterable[Track],
        arenas: Arenas,
        limits: FetchLimits,
        stop: Callable[[Track, Verdict], None],
    ) -> None:
        self._cluster = cluster
        self._arenas = arenas
        self._limits = limits
        self._stop = stop
        self.feeders: dict[int, Feeder] = {}
        self.bench = Bench(cluster)
        self.outage = Outage(cluster.alias)
        self._leaderless = Leaderless(tracks, _RETRY_S)

    def wakes_at(self) -> float:
        return self._leaderless.wakes_at()

    @property
    def reads_by_name(self) -> bool:
        """Whether somebody has to check, before a commit, that the topics are still the same."""
        return any(feeder.by_name for feeder in self.feeders.values())

    def want(self, track: Track) -> None:
        """Ask for it from its `next_fetch` on, at its leader if that is known."""
        feeder = self.feeders.get(track.source_node)
        if feeder is not None:
            feeder.want(track)
        elif track not in self._leaderless.not_before:
            self._leaderless.add([track], 0.0)

    def forget(self, track: Track) -> None:
        """Ask for it no more; its leader stays known."""
        feeder = self.feeders.get(track.source_node)
        if feeder is not None:
            feeder.forget(track)

    def leave(self, track: Track) -> None:
        self._leaderless.drop(track)
        self.forget(track)

    def join(self, track: Track) -> None:
        self._leaderless.add([track], 0.0)

    def restart(self, tracks: Iterable[Track]) -> None:
        """Begin anew at the tracks' positions: what is in flight means nothing now."""
        for feeder in self.feeders.values():
            self._close(feeder)
        self.feeders.clear()
        self._leaderless.begin(tracks)

    def trouble(self, track: Track, number: int, now: float) -> None:
        """A broker answered with an error: wait, or stop the track."""
        self.leave(track)
        verdict = self.bench.judge(track, number, now)
        if verdict is not None:
            self._stop(track, verdict)
        else:
            self._leaderless.add([track], now + _RETRY_S)

    def lost(self, feeder: Feeder, now: float, error: KafkaUnavailable | None) -> None:
        """The connection broke while something was asked.

        The cluster may be well otherwise, and that broker go on like this: its partitions are not
        waited for without end.
        """
        if self.feeders.get(feeder.node) is feeder:
            self.closed(feeder, now)
            self.outage.note(now, error)
            for track in list(feeder.members.values()):
                self.trouble(track, Code.NETWORK_EXCEPTION, now)

    def closed(self, feeder: Feeder, now: float) -> None:
        """The connection is gone: its tracks look for their leaders, in case these have moved."""
        if self.feeders.get(feeder.node) is feeder:
            self._close(feeder)
            del self.feeders[feeder.node]
            self._leaderless.add(feeder.members.values(), now + _RETRY_S)

    def look(self, now: float) -> list[Track]:
        """Ask who leads the partitions without a feeder; those that have one from now on.

        Each must still be the partition of the topic that was planned.
        """
        waiting = self._leaderless.due(now)
        if not waiting:
            return []
        names = dict.fromkeys(track.topic for track in waiting)
        try:
            views = self._cluster.describe(names, time.monotonic() + _LOOK_S)
        except KafkaUnavailable as error:
            self.outage.note(now, error)
            return []
        settled = []
        for track in waiting:
            leader, number = leader_or_error(
                views.get(track.topic),
                track.partition,
                track.source_id,
                recreated=Code.UNKNOWN_TOPIC_ID,
            )
            if leader is None:
                self.trouble(track, number, now)
            elif not self._connected(leader.node, now):
                self.trouble(track, Code.BROKER_NOT_AVAILABLE, now)
            else:
                self._leaderless.drop(track)
                track.source_node, track.source_epoch = leader.node, leader.epoch
                settled.append(track)
        return settled

    def _connected(self, node: int, now: float) -> bool:
        if node not in self.feeders:
            try:
                link = self._cluster.link(node, "fetch", now + _LOOK_S)
            except KafkaUnavailable as error:
                self.outage.note(now, error)
                return False
            self.feeders[node] = Feeder(node, link, self._limits)
        return True

    def _close(self, feeder: Feeder) -> None:
        self._cluster.drop(feeder.link)
        if feeder.arena is not None:
            self._arenas.give_back(feeder.arena)
            feeder.arena = None
