"""Maps of offset runs as rows, written block by block as a flow writes them."""

from __future__ import annotations

from collections.abc import Sequence

from mirrors.domain.offsets.runs import OpenBlock, Run, pack
from mirrors.models import Flow, PartitionMap
from mirrors.models.offsets import BlockRow
from mirrors.services.offsets.run_blocks import write_blocks


def keep_map(
    flow: Flow,
    topic: str,
    partition: int,
    runs: Sequence[Run],
    *,
    position: int,
    at_once: int,
    follows: int | None = None,
) -> PartitionMap:
    """`at_once` runs a transaction. `follows`: where what was taken over ends downstream."""
    known = PartitionMap.objects.create(
        flow=flow, topic=topic, partition=partition, generation="g", position=position
    )
    block: OpenBlock | None = None
    for at in range(0, len(runs), at_once):
        packed = pack(block, runs[at : at + at_once], follows)
        block = packed.open
        write_blocks((known.pk, _row(one, at)) for one in packed.blocks)
    return known


def _row(block: OpenBlock, at: int) -> BlockRow:
    first, downstream, _ = block.first
    return BlockRow(first, downstream, at, block.to_bytes())
