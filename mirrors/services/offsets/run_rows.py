"""Blocks of runs as rows: read off the topic, and what each takes out of those before it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator

from django.db.models import OuterRef, Subquery

from mirrors.domain.records import MalformedRecord
from mirrors.domain.runs import BlockKey, first_run, is_left_out
from mirrors.kafka.internal import InternalRecord
from mirrors.models import PartitionMap, RunBlock
from mirrors.models.offsets import BlockRow, store_blocks

log = logging.getLogger(__name__)

_BATCH = 400
# Topic, partition, generation.
MapKey = tuple[str, int, str]


@dataclasses.dataclass
class Blocks:
    """A stretch of the topic. `into`: the topic that a map's runs lead to; `taken`: blocks that
    were taken off, by map and first offset, and where that was said."""

    blocks: list[tuple[MapKey, BlockRow]] = dataclasses.field(default_factory=list)
    into: dict[MapKey, str] = dataclasses.field(default_factory=dict)
    taken: dict[tuple[MapKey, int], int] = dataclasses.field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        return {key[0] for key in (*self.into, *(key for key, _ in self.taken))}

    def last_blocks(self) -> Iterator[tuple[MapKey, BlockRow]]:
        """Those that were not taken off behind."""
        for key, block in self.blocks:
            if self.taken.get((key, block.first), -1) < block.topic_offset:
                yield key, block

    def take(self, record: InternalRecord) -> None:
        key = BlockKey.from_bytes(record.key or b"")
        place = (key.topic, key.partition, key.generation)
        if is_left_out(key.generation):
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
            log.warning("A record at offset %s is left out: %s.", record.offset, error)
    return found


@dataclasses.dataclass
class _Pending:
    """Blocks of one map, newest last; `replaces` is where the older rows end to count."""

    last: int | None
    blocks: dict[int, BlockRow] = dataclasses.field(default_factory=dict)
    replaces: int | None = None

    def add(self, block: BlockRow) -> None:
        if self.last is not None and block.first < self.last:
            # Begun again below: what was written before it, from there on, is superseded.
            self.blocks = {at: row for at, row in self.blocks.items() if at < block.first}
            known = self.replaces
            self.replaces = block.first if known is None else min(known, block.first)
        self.blocks[block.first] = block
        self.last = block.first


def write_blocks(found: Iterable[tuple[int, BlockRow]]) -> None:
    """Blocks as they were written to the topic, each with the id of its map."""
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
    store_blocks(
        (map_id, block) for map_id, newer in pending.items() for block in newer.blocks.values()
    )


def _lasts(maps: set[int]) -> dict[int, int | None]:
    """Where the last block of each map begins: one look-up a map, however many blocks it has."""
    blocks = RunBlock.objects.filter(map=OuterRef("pk")).order_by("-first")
    rows = PartitionMap.objects.filter(pk__in=maps).order_by()
    return dict(rows.values_list("pk", Subquery(blocks.values("first")[:1])))


def remove_blocks(taken: Iterable[tuple[int, int]], *, before: int) -> None:
    """Blocks that were taken off the topic, by map and first offset, as written up to an offset."""
    firsts: dict[int, list[int]] = {}
    for map_id, first in taken:
        firsts.setdefault(map_id, []).append(first)
    for map_id, found in firsts.items():
        for start in range(0, len(found), _BATCH):
            rows = RunBlock.objects.filter(map=map_id, first__in=found[start : start + _BATCH])
            rows.filter(topic_offset__lt=before).delete()
