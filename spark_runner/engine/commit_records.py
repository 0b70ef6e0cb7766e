"""The records that a slice writes in the transaction of the data: positions and offset runs."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.internal_topics.records import Position, RoutePosition
from mirrors.domain.offsets.generation import generation
from mirrors.domain.offsets.runs import BlockKey, OpenBlock, Run, pack, skipped_generation
from mirrors.domain.offsets.truncation_marks import MARK_BODY, truncation_key
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.transforms.dead_letters import DeadLetters
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record, encode_batch, read_header
from spark_runner.native.crc32c import address_of

# Both topics keep the default limit of 1 MB per batch.
_BATCH_BYTES = 512 << 10
_PACK_FROM = 1024


class PositionRecords:
    """Position records, with what is known about the remote partitions."""

    def __init__(
        self, repeats: DuplicateCounter, *, source_cluster: str, target_cluster: str
    ) -> None:
        # A transaction leaves one marker in each partition that it wrote.
        self.markers = 1
        self._duplicates = repeats
        # Truncated remote partitions by their end, and positions that the next commit writes in any
        # case.
        self._truncated: dict[Partition, int] = {}
        self.to_rewrite: set[Partition] = set()
        self._source_cluster = source_cluster
        self._target_cluster = target_cluster

    def mark_truncated(self, partition: Partition, remote_end: int) -> None:
        """The next commit records that the remote partition was truncated at `remote_end`."""
        self._truncated[partition] = remote_end
        self.to_rewrite.add(partition)

    def rewrite(self, partitions: Iterable[Partition]) -> None:
        """The next commit writes these positions again: they were verified to be the last ones."""
        self.to_rewrite.update(partition.main or partition for partition in partitions)

    def position(self, partition: Partition, at: int) -> Position:
        repeats = self._duplicates.after_commit(partition)
        there = max(partition.committed_downstream, self.after_commit(partition))
        return Position(
            topic=partition.topic,
            partition=partition.partition,
            position=at,
            source_cluster=self._source_cluster,
            source_topic_id=id_text(partition.source_id),
            target_cluster=self._target_cluster,
            target_topic_id=id_text(partition.remote_id),
            leader_epoch=partition.acknowledged_epoch
            if partition.acknowledged_epoch >= 0
            else None,
            resets=partition.resets,
            kept=partition.kept,
            next_downstream=there if there >= 0 else None,
            map_end=partition.next_map_end,
            remote_end=self._truncated.get(partition),
            repeats=repeats.records,
            dead_letters=partition.dead_letters + partition.dead_letters_written,
            owed=repeats.owed,
            producer=self._duplicates.producer,
            routes=tuple(self._route(route) for route in partition.routes),
        )

    def _route(self, route: Partition) -> RoutePosition:
        there = max(route.committed_downstream, self.after_commit(route))
        return RoutePosition(
            route.remote_topic,
            id_text(route.remote_id),
            there if there >= 0 else None,
            route.next_map_end,
        )

    def after_commit(self, partition: Partition) -> int:
        """The downstream offset of the next batch after this transaction has ended."""
        if partition.next_downstream < 0 or not partition.records:
            return partition.next_downstream
        return partition.next_downstream + self.markers


class CommitRecords(PositionRecords):
    """Encodes positions and offset runs; keeps each partition's block of runs while it is open."""

    def __init__(
        self,
        positions: Partition,
        runs: Partition,
        repeats: DuplicateCounter,
        *,
        source_cluster: str,
        target_cluster: str,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        super().__init__(repeats, source_cluster=source_cluster, target_cluster=target_cluster)
        self.positions = positions
        self.runs = runs
        self.dead_letters = dead_letters
        self._open: dict[tuple[Partition, str], OpenBlock] = {}
        self._next: dict[tuple[Partition, str], OpenBlock] = {}

    @property
    def internal_partitions(self) -> tuple[Partition, ...]:
        dead_letters = () if self.dead_letters is None else (self.dead_letters.topic,)
        return self.positions, self.runs, *dead_letters

    def write(self, moved: Iterable[Partition], now_ms: int) -> None:
        """Queue the records of this transaction."""
        moved = list(moved)
        if self.dead_letters is not None:
            self.dead_letters.write(moved, now_ms)
        positions: list[tuple[bytes, bytes]] = []
        blocks: list[tuple[bytes, bytes]] = []
        for partition in self.to_rewrite & self._truncated.keys():
            into, end = id_text(partition.remote_id), self._truncated[partition]
            key = truncation_key(
                partition.topic, partition.partition, self._generation(partition), into, end
            )
            blocks.append((key.to_bytes(), MARK_BODY))
        for partition in moved:
            row = self.position(partition, partition.acknowledged_offset)
            positions.append((row.key, row.value))
            for member in partition.members:
                blocks += self._encode_blocks(
                    member,
                    self._generation(member),
                    map(Run._make, member.runs),
                    member.map_end,
                )
            blocks += self._encode_blocks(
                partition,
                skipped_generation(self._generation(partition)),
                partition.skipped.runs_until(partition.acknowledged_offset),
            )
        _queue_records(self.positions, positions, now_ms)
        _queue_records(self.runs, blocks, now_ms)

    def committed(self) -> None:
        self._open |= self._next
        self._next = {}
        self.to_rewrite.clear()

    def begin(self) -> None:
        """Begin new blocks of runs.

        The outcome of a lost producer's last transaction is unknown. Continuing an older block
        would overwrite runs which that transaction may have added.
        """
        self._open = {}
        self._next = {}
        if self.dead_letters is not None:
            self.dead_letters.begin()

    def _generation(self, partition: Partition) -> str:
        return generation(
            self._source_cluster,
            id_text(partition.source_id),
            self._target_cluster,
            id_text(partition.remote_id),
            partition.resets - partition.kept,
        )

    def _encode_blocks(
        self, partition: Partition, generation: str, runs: Iterable[Run], follows: int | None = None
    ) -> Iterable[tuple[bytes, bytes]]:
        packed = pack(self._open.get((partition, generation)), runs, follows)
        if packed.blocks and packed.open is not None:
            self._next[partition, generation] = packed.open
        into = id_text(partition.remote_id)
        for block in packed.blocks:
            key = BlockKey(
                partition.topic, partition.partition, generation, block.first.upstream, into
            )
            yield key.to_bytes(), block.to_bytes()


def _queue_records(partition: Partition, rows: list[tuple[bytes, bytes]], now_ms: int) -> None:
    records: list[Record] = []
    size = 0
    for key, value in rows:
        if records and size + len(key) + len(value) > _BATCH_BYTES:
            _enqueue(partition, records, size)
            records, size = [], 0
        records.append(Record(len(records), now_ms, key, value))
        size += len(key) + len(value)
    if records:
        _enqueue(partition, records, size)


def _enqueue(partition: Partition, records: list[Record], size: int) -> None:
    # Names and ids repeat in each record, so compression pays.
    codec = compression.LZ4 if size >= _PACK_FROM else compression.NONE
    memory = encode_batch(records, codec=codec)
    view = memoryview(memory)
    partition.enqueue(PendingBatch(None, view, 0, address_of(memory), read_header(view), ""))
