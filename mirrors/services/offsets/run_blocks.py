"""Blocks of runs as rows: read from the topic, and which earlier blocks each one replaces."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator

from django.db.models import OuterRef, Subquery

from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.offsets.run_blocks import first_run
from mirrors.domain.offsets.runs import BlockKey, is_skipped_generation
from mirrors.domain.offsets.truncation_marks import restarted_generation, truncate_upstream
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.models import PartitionMap, RunBlock, SyncedPartition
from mirrors.models.offsets import BlockRow, store_blocks

log = logging.getLogger(__name__)

_BATCH = 400
# Topic, partition, generation.
MapKey = tuple[str, int, str]


@dataclasses.dataclass
class Blocks:
    """A range of the topic. `into`: the remote topic of a map's runs. `taken`: deleted blocks, by
    map and first offset, with the offset of the tombstone. A block without a body is a mark: its
    map begins again there."""

    blocks: list[tuple[MapKey, BlockRow]] = dataclasses.field(default_factory=list)
    into: dict[MapKey, str] = dataclasses.field(default_factory=dict)
    taken: dict[tuple[MapKey, int], int] = dataclasses.field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        return {key[0] for key in (*self.into, *(key for key, _ in self.taken))}

    def last_blocks(self) -> Iterator[tuple[MapKey, BlockRow]]:
        """The last block of each map without a later tombstone."""
        for key, block in self.blocks:
            if not block.body or self.taken.get((key, block.first), -1) < block.topic_offset:
                yield key, block

    def take(self, record: InternalRecord) -> None:
        key = BlockKey.from_bytes(record.key or b"")
        place = (key.topic, key.partition, key.generation)
        if (born := restarted_generation(key)) is not None and record.value is not None:
            place = (key.topic, key.partition, born)
            self.blocks.append((place, BlockRow(key.first, 0, record.offset, b"")))
            self.into[place] = key.into
        if is_skipped_generation(key.generation):
            return
        if record.value is None:
            self.taken[place, key.first] = record.offset
            return
        first = first_run(record.value)
        block = BlockRow(first.upstream, first.downstream, record.offset, record.value)
        self.blocks.append((place, block))
        self.into[place] = key.into


def read_records(records: Iterable[InternalRecord]) -> Blocks:
    found = Blocks()
    for record in records:
        try:
            found.take(record)
        except MalformedRecord as error:
            log.warning("A record at offset %s is skipped: %s.", record.offset, error)
    return found


@dataclasses.dataclass
class _Pending:
    """Blocks of one map, newest last; from `replaces` on older rows are no longer valid."""

    last: int | None
    blocks: dict[int, BlockRow] = dataclasses.field(default_factory=dict)
    replaces: int | None = None
    again_at: int | None = None

    def add(self, block: BlockRow) -> None:
        if not block.body:
            self._begin_again(block.first)
            return
        if self.last is not None and block.first < self.last:
            # Written again at a lower offset: earlier blocks from there on are superseded.
            self.blocks = {at: row for at, row in self.blocks.items() if at < block.first}
            known = self.replaces
            self.replaces = block.first if known is None else min(known, block.first)
        self.blocks[block.first] = block
        self.last = block.first

    def _begin_again(self, at: int) -> None:
        """Earlier blocks from this offset on are no longer valid."""
        self.blocks = {
            first: row._replace(body=truncate_upstream(row.body, at) or row.body)
            for first, row in self.blocks.items()
            if first < at
        }
        self.again_at = at if self.again_at is None else min(self.again_at, at)
        self.replaces = at if self.replaces is None else min(self.replaces, at)
        self.last = max(self.blocks, default=None)


def write_blocks(found: Iterable[tuple[int, BlockRow]]) -> None:
    """Store blocks as written to the topic, each with the id of its map."""
    pending: dict[int, _Pending] = {}
    rows = list(found)
    lasts = _lasts({map_id for map_id, _ in rows})
    for map_id, block in rows:
        newer = pending.get(map_id)
        if newer is None:
            newer = pending[map_id] = _Pending(lasts[map_id])
        newer.add(block)
    for map_id, newer in pending.items():
        if newer.replaces is not None:
            RunBlock.objects.filter(map=map_id, first__gte=newer.replaces).delete()
        if newer.again_at is not None:
            _end_before(map_id, newer.again_at)
    store_blocks(
        (map_id, block) for map_id, newer in pending.items() for block in newer.blocks.values()
    )


def _end_before(map_id: int, at: int) -> None:
    """Delete the rows from there on; MM2's offset pairs after them are invalid too."""
    last = RunBlock.objects.filter(map=map_id, first__lt=at).order_by("-first").first()
    if last is not None:
        RunBlock.objects.filter(pk=last.pk).update(body=truncate_upstream(bytes(last.body), at))
    SyncedPartition.objects.filter(map=map_id, upstream__gte=at).delete()


def _lasts(maps: set[int]) -> dict[int, int | None]:
    """First offset of each map's last block: one look-up per map, whatever its size."""
    blocks = RunBlock.objects.filter(map=OuterRef("pk")).order_by("-first")
    rows = PartitionMap.with_routes.filter(pk__in=maps).order_by()
    return dict(rows.values_list("pk", Subquery(blocks.values("first")[:1])))


def remove_blocks(taken: Iterable[tuple[int, int]], *, before: int) -> None:
    """Delete blocks with a tombstone, by map and first offset, as written before an offset."""
    firsts: dict[int, list[int]] = {}
    for map_id, first in taken:
        firsts.setdefault(map_id, []).append(first)
    for map_id, found in firsts.items():
        for start in range(0, len(found), _BATCH):
            rows = RunBlock.objects.filter(map=map_id, first__in=found[start : start + _BATCH])
            rows.filter(topic_offset__lt=before).delete()
