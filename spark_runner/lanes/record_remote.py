"""What the record lane knows of the remote partitions: where they end, what lies there twice.

As the raw lane does it (`remote_cut`, `repeats`), with two differences. What a dead predecessor
left is looked at before anything is written, and written down, for at least once a new process
writes under a new id. And librdkafka does not tell that id: the log of the positions topic does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.continuity.strangers import Hole
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.records import Position
from spark_runner.lanes import remote_cut
from spark_runner.lanes.holes import read_holes
from spark_runner.lanes.ledger import Rows
from spark_runner.lanes.record_writer import Landed, Writer
from spark_runner.lanes.repeats import RepeatsSeen
from spark_runner.lanes.track import Track
from spark_runner.lanes.verdict import Verdict
from spark_runner.positions import Place
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.patience import Patience
from spark_runner.work import SliceWork

log = logging.getLogger(__name__)

_LOOK_S = 3.0


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

    def close(self) -> None:
        self._client.close()

    def open(self, tracks: Iterable[Track], deadline: float) -> None:
        """Before our turn; raises KafkaUnavailable."""
        self._client.open(deadline)
        remote_cut.prepare(self._client, tracks)

    def take_over(
        self, tracks: Iterable[Track], known: Mapping[Place, Position]
    ) -> dict[Track, Verdict]:
        """The tracks stand where they were committed; those that were cut, and how."""
        going = [track for track in tracks if track.error is None]
        for track in going:
            self.repeats.resumed(track, known.get(track.place))
        if not going:
            return {}
        ends = remote_cut.ends(self._client, going)
        cut = remote_cut.judge(ends, self._client.alias)
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

    def cut(self, landed: Mapping[Track, Landed]) -> dict[Track, Verdict]:
        """Before a commit: those whose first record did not get an offset that was free."""
        firsts = {track: found.first for track, found in landed.items() if found.first >= 0}
        return remote_cut.judge(firsts, self._client.alias)

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
        patience = Patience(deadline)
        try:
            view = self._client.describe([self._topic], deadline)[self._topic]
            track = Track(self._topic, 0, self._topic, remote_id=view.topic_id, ledger=True)
            while at is not None:
                for _, seen in read_holes(self._client, track, [Hole(at, at + 1)], deadline):
                    return next(one.producer for one in seen if one.first <= at <= one.last)
                if not patience.wait():
                    break
        except UnderstudyError as error:
            log.warning("under which id this slice writes is not known: %s", error.message)
        return None
