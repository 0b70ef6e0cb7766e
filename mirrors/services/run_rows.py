"""Blocks of runs as rows: what a block that begins again below another one takes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from django.db.models import Max

from mirrors.models import RunBlock

_BATCH = 400


@dataclasses.dataclass
class _Pending:
    """Blocks of one map, newest last; `replaces` is where the older rows end to count."""

    last: int | None
    blocks: dict[int, RunBlock] = dataclasses.field(default_factory=dict)
    replaces: int | None = None

    def add(self, block: RunBlock) -> None:
        if self.last is not None and block.first < self.last:
            # Begun again below: what was written before it, from there on, is superseded.
            self.blocks = {at: row for at, row in self.blocks.items() if at < block.first}
            known = self.replaces
            self.replaces = block.first if known is None else min(known, block.first)
        self.blocks[block.first] = block
        self.last = block.first


def write_blocks(found: Iterable[tuple[int, RunBlock]]) -> None:
    """Blocks as they were written to the topic, each with the id of its map."""
    rows = list(found)
    lasts = dict(
        RunBlock.objects.filter(map__in={map_id for map_id, _ in rows})
        .order_by()
        .values_list("map")
        .annotate(last=Max("first"))
    )
    pending: dict[int, _Pending] = {}
    for map_id, block in rows:
        block.map_id = map_id
        pending.setdefault(map_id, _Pending(lasts.get(map_id))).add(block)
    for map_id, newer in pending.items():
        if newer.replaces is not None:
            RunBlock.objects.filter(map=map_id, first__gte=newer.replaces).delete()
    RunBlock.objects.bulk_create(
        [block for newer in pending.values() for block in newer.blocks.values()],
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["map", "first"],
        update_fields=["downstream", "topic_offset", "body"],
    )


def remove_blocks(taken: Iterable[tuple[int, int]], *, before: int) -> None:
    """Blocks that were taken off the topic, by map and first offset, as written up to an offset."""
    firsts: dict[int, list[int]] = {}
    for map_id, first in taken:
        firsts.setdefault(map_id, []).append(first)
    for map_id, found in firsts.items():
        for start in range(0, len(found), _BATCH):
            rows = RunBlock.objects.filter(map=map_id, first__in=found[start : start + _BATCH])
            rows.filter(topic_offset__lt=before).delete()
