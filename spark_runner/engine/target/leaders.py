"""Which target broker leads which remote partition, and the pipes to each.

A broker works off one connection's requests one by one, on one processor. So where a backlog keeps
a pipe full, every second partition of that broker moves to another pipe; with little traffic one
pipe is better, for two cost twice the requests (docs/adr/0008). A partition changes pipes only
right after a commit, when nothing of it is on its way: two connections keep no order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from spark_runner.engine.model.broker_availability import Leaderless, Outage
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.target_settings import Tuning
from spark_runner.engine.target.produce_connection import Pipe, width_after
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.metadata import leader_or_error

_LOOK_S = 3.0
_RETRY_S = 0.1


class Homes:
    """Tracks without a home are looked up together; meanwhile the others go on."""

    def __init__(
        self,
        cluster: ClusterClient,
        tracks: Iterable[Track],
        *,
        transactional_id: str | None,
        tuning: Tuning,
        newest: int = produce.MOST,
    ) -> None:
        self.cluster = cluster
        self.alias = cluster.alias
        self.pipes: dict[tuple[int, int], Pipe] = {}
        self.by_key: dict[tuple[bytes, int], Track] = {}
        self._tracks = list(tracks)
        self._transactional_id = transactional_id
        self.tuning = tuning
        self._newest = newest
        # How many pipes a broker has that has more than one.
        self._widths: dict[int, int] = {}
        # Brokers that would not have a second one.
        self._single: set[int] = set()
        self._leaderless = Leaderless(self._tracks, _RETRY_S)
        self.outage = Outage(cluster.alias)

    def ready(self, track: Track) -> None:
        pipe = self.pipes.get(track.home)
        if pipe is not None and track not in self._leaderless.not_before:
            pipe.ready[track] = None

    def leave(self, track: Track, until: float) -> None:
        """Its leader may be another one by now."""
        self.forget(track)
        self._leaderless.add([track], until)

    def forget(self, track: Track) -> None:
        """Nothing of it will be written any more."""
        self._leaderless.drop(track)
        pipe = self.pipes.get(track.home)
        if pipe is not None:
            pipe.ready.pop(track, None)

    def wakes_at(self) -> float:
        return self._leaderless.wakes_at()

    @property
    def quiet_until(self) -> float:
        """Until when a quota makes one of the brokers deaf, as it said itself."""
        return max((pipe.link.quiet_until for pipe in self.pipes.values()), default=0.0)

    @property
    def writes_by_name(self) -> bool:
        """Whether somebody has to check, before a commit, that the topics are still the same."""
        return any(pipe.by_name for pipe in self.pipes.values())

    def look(self, now: float) -> list[tuple[Track, int]]:
        """Find homes for those without; returns each with 0, or the number that says why not."""
        waiting = self._leaderless.due(now)
        if not waiting:
            return []
        names = dict.fromkeys(track.remote_topic for track in waiting)
        try:
            views = self.cluster.describe(names, time.monotonic() + _LOOK_S)
        except KafkaUnavailable as error:
            self.outage.note(now, error)
            return []
        found: list[tuple[Track, int]] = []
        for track in waiting:
            leader, number = leader_or_error(
                views.get(track.remote_topic),
                track.partition,
                track.remote_id,
                recreated=Code.INCONSISTENT_TOPIC_ID,
            )
            if leader is not None and not self._settle(track, leader.node, now):
                number = Code.LEADER_NOT_AVAILABLE
            found.append((track, number))
        if not self._leaderless.not_before and not any(map(is_on_its_way, self._tracks)):
            # No reply will come that would say so, and whatever fails later is another outage.
            self.outage.over()
        return found

    def _settle(self, track: Track, node: int, now: float) -> bool:
        try:
            pipe = self._pipe_for(track, node, now)
        except KafkaUnavailable as error:
            self.outage.note(now, error)
            return False
        self._leaderless.drop(track)
        self._move(track, pipe)
        return True

    def _pipe_for(self, track: Track, node: int, now: float) -> Pipe:
        number = track.partition % self._widths.get(node, 1)
        try:
            return self._pipe((node, number), now)
        except KafkaUnavailable:
            if not number:
                raise
            # Its tracks were leaderless, all of them, so none is torn between two connections.
            self._single.add(node)
            del self._widths[node]
            return self._pipe((node, 0), now)

    def _pipe(self, home: tuple[int, int], now: float) -> Pipe:
        pipe = self.pipes.get(home)
        if pipe is None:
            node, number = home
            purpose = f"produce {number}"
            pipe = self.pipes[home] = Pipe(
                home,
                self.cluster.link(node, purpose, now + _LOOK_S),
                transactional_id=self._transactional_id,
                newest=self._newest,
                tuning=self.tuning,
                patience_s=self.cluster.request_s,
            )
        return pipe

    def _move(self, track: Track, pipe: Pipe) -> None:
        # The key of an older broker stays: replies may still come from there.
        track.home = pipe.home
        track.remote_key = pipe.key_of(track)
        self.by_key[track.remote_key, track.partition] = track
        if track.queue:
            pipe.ready[track] = None

    def spread(self, now: float) -> None:
        """After a commit: a second pipe to each broker that had too much for one, or one again."""
        by_node: dict[int, list[Pipe]] = {}
        for pipe in self.pipes.values():
            by_node.setdefault(pipe.home[0], []).append(pipe)
        for node, pipes in by_node.items():
            before = self._widths.get(node, 1)
            width = width_after(before, pipes, self.tuning.in_flight)
            for pipe in pipes:
                pipe.look_anew()
            if width > before and node in self._single:
                continue
            if width != before and self._have(node, width, now):
                self._widths[node] = width
                self._rearrange(node, width)

    def _have(self, node: int, width: int, now: float) -> bool:
        for number in range(width):
            try:
                self._pipe((node, number), now)
            except KafkaUnavailable:
                # What is there goes on. To ask again at each commit would hold up each.
                if number:
                    self._single.add(node)
                return False
        return True

    def _rearrange(self, node: int, width: int) -> None:
        for track in self._tracks:
            if track.home[0] != node or track.error or track in self._leaderless.not_before:
                continue
            old, new = self.pipes[track.home], self.pipes[node, track.partition % width]
            if new is old or track.flying or track.returned:
                continue
            if track in old.ready:
                del old.ready[track]
                new.ready[track] = None
            self._move(track, new)

    def lost(self, pipe: Pipe, now: float) -> None:
        """The pipe is broken, or the broker closed it: its tracks need a leader anew."""
        if self.pipes.get(pipe.home) is not pipe:
            return
        self.cluster.broken += 1
        self.cluster.drop(pipe.link)
        pipe.flights.clear()
        pipe.ready.clear()
        del self.pipes[pipe.home]
        its = [t for t in self._tracks if t.home == pipe.home and t.error is None]
        self._leaderless.add(its, now)

    def restart(self) -> None:
        for pipe in self.pipes.values():
            self.cluster.drop(pipe.link)
        self.pipes.clear()
        self._widths.clear()
        self._single.clear()
        self._leaderless.begin(track for track in self._tracks if track.error is None)


def is_on_its_way(track: Track) -> bool:
    """Whether something of it is not yet written."""
    return bool(track.queue or track.flying or track.returned)
