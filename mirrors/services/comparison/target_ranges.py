"""Where the compared range of a partition begins on the target.

It begins after the last record that is not compared, not at the first compared one: a foreign
record may be between the two. Not compared are:

- copies of records before the first compared one: they end where the run below it ends;
- before the first run of the map, what MirrorMaker 2 had copied when the flow took over from it
  (the block stores that end), and copies of an earlier generation of either topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.run_blocks import Block, first_run, follows, read_block
from mirrors.models import Flow, PartitionMap
from mirrors.models.offsets import NeighborBlocks, neighbor_blocks

_LAST = 2**62


class PrecedingRange(NamedTuple):
    """Target offsets below the compared range, up to `end`.

    `first`: the first source offset of the map, if the range begins with it; None if it
    begins after other copies of the same map. `is_known`: below are copies by others or of an
    earlier generation, which are not compared.
    """

    end: int
    first: int | None = None
    is_known: bool = False


class TargetRanges:
    """Call `look` once with the first compared source offset of each partition, then `before`."""

    def __init__(self, flow: Flow, maps: Mapping[TopicPartition, PartitionMap]) -> None:
        self._flow = flow
        self._maps = maps
        self._around: dict[TopicPartition, NeighborBlocks] = {}
        self._ends: dict[TopicPartition, int] = {}

    def look(self, firsts: Mapping[TopicPartition, int]) -> None:
        """Read the blocks below these offsets, and the ends of earlier generations."""
        wanted = {tp: (self._maps[tp].pk, at - 1) for tp, at in firsts.items()}
        found = neighbor_blocks(wanted.values())
        self._around.update({tp: found[at] for tp, at in wanted.items()})
        self._ends = self._earlier(firsts)

    def before(self, tp: TopicPartition, first: int) -> PrecedingRange:
        """What is below the record of source offset `first`, or of the next one that was copied."""
        around = self._around[tp]
        if around.body is not None:
            run, _ = Block(around.body).around(first - 1)
            if run is not None:
                return PrecedingRange(run.downstream + min(run.length, first - run.upstream))
        end = self._ends.get(tp, 0)
        known = self._maps[tp]
        if around.above is None:
            taken = known.map_end or 0
            return PrecedingRange(max(end, taken), None, is_known=max(end, taken) > 0)
        taken = follows(around.above) or 0
        begins = first_run(around.above).upstream
        return PrecedingRange(max(end, taken), begins, is_known=max(end, taken) > 0)

    def _earlier(self, firsts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where copies of earlier generations end in the same remote partitions."""
        rows = PartitionMap.objects.filter(
            flow=self._flow, position=None, topic__in={topic for topic, _ in firsts}
        )
        old: dict[int, TopicPartition] = {
            row.pk: (row.topic, row.partition)
            for row in rows
            if (known := self._maps.get((row.topic, row.partition))) is not None
            and row.into == known.into
        }
        ends: dict[TopicPartition, int] = {}
        for (pk, _), around in neighbor_blocks((pk, _LAST) for pk in old).items():
            if around.body is None:
                continue
            *_, last = read_block(around.body)
            tp = old[pk]
            ends[tp] = max(ends.get(tp, 0), last.downstream + last.length)
        return ends
