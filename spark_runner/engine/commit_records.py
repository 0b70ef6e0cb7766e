"""What a slice writes about itself, in the transaction of the data: positions and offset runs."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation
from mirrors.domain.offsets.runs import BlockKey, OpenBlock, Run, left_out, pack
from mirrors.domain.offsets.truncation_marks import MARK_BODY, cut_key
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.pending_batch import Parcel
from spark_runner.engine.recovery.duplicates import RepeatsSeen
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.crc32c import address_of
from spark_runner.kafka_protocol.metadata import id_text
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header

# Both topics keep the default of 1 MB a batch.
_BATCH_BYTES = 512 << 10
_PACK_FROM = 1024


class Rows:
    """Positions as they are written down, with what is known of the remote partition."""

    def __init__(self, repeats: RepeatsSeen, *, source_cluster: str, target_cluster: str) -> None:
        # A transaction that wrote into a partition ends there with one marker.
        self.markers = 1
        self._repeats = repeats
        # Remote partitions that were found cut, by where they end, and those not yet written down.
        self._cuts: dict[Track, int] = {}
        self.unsaid: set[Track] = set()
        self._source_cluster = source_cluster
        self._target_cluster = target_cluster

    def mark(self, track: Track, remote_end: int) -> None:
        """The next commit writes down that its remote partition was cut there."""
        self._cuts[track] = remote_end
        self.unsaid.add(track)

    def say_again(self, tracks: Iterable[Track]) -> None:
        """The next commit writes their positions down once more: they were found to be the last."""
        self.unsaid.update(tracks)

    def position(self, track: Track, at: int) -> Position:
        repeats = self._repeats.after_commit(track)
        there = max(track.there, self.after_commit(track))
        return Position(
            topic=track.topic,
            partition=track.partition,
            position=at,
            source_cluster=self._source_cluster,
            source_topic_id=id_text(track.source_id),
            target_cluster=self._target_cluster,
            target_topic_id=id_text(track.remote_id),
            leader_epoch=track.epoch if track.epoch >= 0 else None,
            resets=track.resets,
            kept=track.kept,
            next_downstream=there if there >= 0 else None,
            map_end=track.next_map_end,
            remote_end=self._cuts.get(track),
            repeats=repeats.records,
            owed=repeats.owed,
            producer=self._repeats.producer,
        )

    def after_commit(self, track: Track) -> int:
        """Where the next batch belongs once this transaction has ended."""
        if track.next_there < 0 or not track.records:
            return track.next_there
        return track.next_there + self.markers


class Book(Rows):
    """Turns what moved into records; remembers each partition's block of runs while it is open."""

    def __init__(
        self,
        positions: Track,
        runs: Track,
        repeats: RepeatsSeen,
        *,
        source_cluster: str,
        target_cluster: str,
    ) -> None:
        super().__init__(repeats, source_cluster=source_cluster, target_cluster=target_cluster)
        self.positions = positions
        self.runs = runs
        self._open: dict[tuple[Track, str], OpenBlock] = {}
        self._next: dict[tuple[Track, str], OpenBlock] = {}

    @property
    def ledgers(self) -> tuple[Track, Track]:
        return self.positions, self.runs

    def write(self, moved: Iterable[Track], now_ms: int) -> None:
        """Queue the records of this transaction."""
        positions: list[tuple[bytes, bytes]] = []
        blocks: list[tuple[bytes, bytes]] = []
        for track in self.unsaid & self._cuts.keys():
            into, end = id_text(track.remote_id), self._cuts[track]
            key = cut_key(track.topic, track.partition, self._generation(track), into, end)
            blocks.append((key.to_bytes(), MARK_BODY))
        for track in moved:
            row = self.position(track, track.done)
            positions.append((row.key, row.value))
            born = self._generation(track)
            blocks += self._blocks(track, born, map(Run._make, track.runs), track.map_end)
            blocks += self._blocks(track, left_out(born), track.left_out.runs_until(track.done))
        _queue(self.positions, positions, now_ms)
        _queue(self.runs, blocks, now_ms)

    def committed(self) -> None:
        self._open |= self._next
        self._next = {}
        self.unsaid.clear()

    def begin(self) -> None:
        """Begin new blocks. Nobody knows whether the last transaction of a lost producer counts:
        going on with a block as it was before would write over the runs that it may have added."""
        self._open = {}
        self._next = {}

    def _generation(self, track: Track) -> str:
        return generation(
            self._source_cluster,
            id_text(track.source_id),
            self._target_cluster,
            id_text(track.remote_id),
            track.resets - track.kept,
        )

    def _blocks(
        self, track: Track, born: str, runs: Iterable[Run], follows: int | None = None
    ) -> Iterable[tuple[bytes, bytes]]:
        packed = pack(self._open.get((track, born)), runs, follows)
        if packed.blocks and packed.open is not None:
            self._next[track, born] = packed.open
        into = id_text(track.remote_id)
        for block in packed.blocks:
            key = BlockKey(track.topic, track.partition, born, block.first.upstream, into)
            yield key.to_bytes(), block.to_bytes()


def _queue(track: Track, rows: list[tuple[bytes, bytes]], now_ms: int) -> None:
    batch: list[Record] = []
    size = 0
    for key, value in rows:
        if batch and size + len(key) + len(value) > _BATCH_BYTES:
            _enqueue(track, batch, size)
            batch, size = [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        size += len(key) + len(value)
    if batch:
        _enqueue(track, batch, size)


def _enqueue(track: Track, batch: list[Record], size: int) -> None:
    # Names and ids repeat in every record.
    codec = compression.LZ4 if size >= _PACK_FROM else compression.NONE
    memory = encode_batch(batch, codec=codec)
    view = memoryview(memory)
    track.queue.append(Parcel(None, view, 0, address_of(memory), read_header(view), ""))
    track.queued_bytes += len(memory)
