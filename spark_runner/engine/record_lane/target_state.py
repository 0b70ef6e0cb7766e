"""What the record lane knows of the remote partitions: where they end, what lies there twice.

As the raw lane does it (`remote_cut`, `endings`, `repeats`), with three differences. What a dead
predecessor left is looked at before anything is written, and written down, for at least once a new
process writes under a new id. librdkafka does not tell that id: the log of the positions topic
does. And it ends no transaction that it has not begun: where one hangs, that is ended before it
takes the transactional id; one that it has joined meanwhile ends with its next commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import Hole
from mirrors.domain.internal_topics.records import Position
from mirrors.kafka.retry import RetryBackoff
from spark_runner.engine import setup
from spark_runner.engine.commit_records import Rows
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.record_lane.producer import Landed, Writer
from spark_runner.engine.recovery import target_truncation, truncated_positions
from spark_runner.engine.recovery.duplicates import RepeatsSeen
from spark_runner.engine.recovery.hanging_transactions import Endings
from spark_runner.engine.recovery.target_batches import read_holes
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.topic import Place

log = logging.getLogger(__name__)

_LOOK_S = 3.0
_FENCE_S = 30.0


class Remote:
    """One for an epoch; the tracks are those of the partitions on their way."""

    def __init__(self, work: SliceWork, writer: Writer) -> None:
        self._writer = writer
        self._topic = work.positions_topic
        self._client = ClusterClient(work.target, work.spec.settings.producer)
        self.repeats = RepeatsSeen(self._client, transactional=writer.transactional)
        self.rows = Rows(
            self.repeats,
            source_cluster=work.source_cluster_id,
            target_cluster=work.target_cluster_id,
        )
        self.rows.markers = int(writer.transactional)
        self._identity = setup.identity_of(work, self._client)
        self._producers = truncated_positions.producers_of(self._client, self._identity, work)
        self._endings: Endings | None = None

    def close(self) -> None:
        self._client.close()

    def open(self, tracks: Iterable[Track], deadline: float) -> None:
        """Before our turn; raises KafkaUnavailable."""
        self._client.open(deadline)
        target_truncation.prepare(self._client, tracks)

    def mend(self, tracks: Iterable[Track], read: Callable[[], Mapping[Place, Position]]) -> None:
        """In our turn, before the writer takes over: transactions that hang are ended."""
        if not self._writer.transactional:
            return
        deadline = time.monotonic() + _FENCE_S
        going = [track for track in tracks if track.error is None]
        view = self._client.describe([self._topic], deadline)[self._topic]
        ledger = Track(self._topic, 0, self._topic, remote_id=view.topic_id, ledger=True)
        endings = Endings(
            self._client,
            self._identity,
            going,
            [ledger],
            transactional=True,
            own=self._producers,
            say_again=self.rows.say_again,
        )
        endings.fence(deadline)
        endings.mend_ledgers()
        if endings.hang():
            known = read()
            for track in going:
                row = known.get(track.place)
                if row is not None and row.next_downstream is not None and row.remote_end is None:
                    track.there = row.next_downstream
                    track.map_end = row.map_end
            endings.begin()
        self._endings = endings

    def take_over(
        self, tracks: Iterable[Track], known: Mapping[Place, Position]
    ) -> dict[Track, Verdict]:
        """The tracks stand where they were committed; those that were cut, and how."""
        going = [track for track in tracks if track.error is None]
        for track in going:
            self.repeats.resumed(track, known.get(track.place))
        if not going:
            return {}
        ends = target_truncation.ends(self._client, going)
        cut = target_truncation.judge(ends, self._client.alias) | self._lost_positions(ends, known)
        self.repeats.look_before({track: end for track, end in ends.items() if track not in cut})
        if not self._writer.transactional:
            at = self._writer.introduce(self._as_it_was(going[0], known))
            for track, end in ends.items():
                track.next_there = track.there = max(end, track.there)
            if (producer := self._who_wrote(at)) is not None:
                self.repeats.writes_as(producer)
            self._writer.commit(
                self.rows.position(track, track.position) for track in going if track not in cut
            )
        return cut

    def _lost_positions(
        self, ends: Mapping[Track, int], known: Mapping[Place, Position]
    ) -> dict[Track, Verdict]:
        """librdkafka does not tell how old a position is: wherever something lies behind."""
        if not self._writer.transactional:
            return {}
        behind = {
            track: end
            for track, end in ends.items()
            if end > track.there >= 0
            and (row := known.get(track.place)) is not None
            and row.producer is None
        }
        return truncated_positions.judge(self._client, behind, self._producers)[0]

    def cut(self, landed: Mapping[Track, Landed]) -> dict[Track, Verdict]:
        """Before a commit: those whose first record did not get an offset that was free."""
        firsts = {track: found.first for track, found in landed.items() if found.first >= 0}
        cut = target_truncation.judge(firsts, self._client.alias)
        if self._endings is None or not cut:
            return cut
        markers = {track: firsts[track] for track in cut if firsts[track] == track.there - 1}
        joined = self._endings.joined(markers)
        return {track: verdict for track, verdict in cut.items() if track not in joined}

    def landed(self, track: Track, found: Landed) -> None:
        """All that was sent of it lies there, and the next commit makes it count."""
        track.records = found.count
        track.next_there = max(track.next_there, found.last + 1)

    def in_vain(self, landed: Mapping[Track, Landed]) -> None:
        for track, found in landed.items():
            self.repeats.in_vain(track, found.count)

    def committed(self, positions: Mapping[Track, int]) -> None:
        """These positions, and all that had landed."""
        self.rows.unsaid.clear()
        self.repeats.committed(positions)
        for track, at in positions.items():
            track.done = at
            track.commit(self.rows.after_commit(track))

    def _as_it_was(self, track: Track, known: Mapping[Place, Position]) -> Position:
        return known.get(track.place) or self.rows.position(track, track.position)

    def _who_wrote(self, at: int | None) -> int | None:
        """The id under which the record at this offset of the positions topic was written."""
        deadline = time.monotonic() + _LOOK_S
        backoff = RetryBackoff(deadline)
        try:
            view = self._client.describe([self._topic], deadline)[self._topic]
            track = Track(self._topic, 0, self._topic, remote_id=view.topic_id, ledger=True)
            while at is not None:
                for _, seen in read_holes(self._client, track, [Hole(at, at + 1)], deadline):
                    return next(one.producer for one in seen if one.first <= at <= one.last)
                if not backoff.wait():
                    break
        except UnderstudyError as error:
            log.warning("under which id this slice writes is not known: %s", error.message)
        return None
