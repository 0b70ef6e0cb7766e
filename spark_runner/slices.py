"""Which partitions one task copies: packed by weight, and staying where they are."""

from __future__ import annotations

from collections.abc import Mapping

from spark_runner.positions import Place


def pack(
    weights: Mapping[Place, int], most: int, present: Mapping[Place, int] | None = None
) -> dict[Place, int]:
    """Place -> slice index, in at most `most` slices, or as many as there are already.

    A place that has a slice keeps it, also when there is room for fewer than before: each slice
    fences its own predecessors alone, so one that took a place from another could read where it
    stands while that one still copies it. New places go, heaviest first, where the least weight is.
    Indexes are 0, 1, 2, … without holes.
    """
    present = present or {}
    packed = {place: present[place] for place in weights if place in present}
    count = max([min(most, len(weights)), *(index + 1 for index in packed.values())], default=0)
    loads = [0] * count
    for place, index in packed.items():
        loads[index] += weights[place] + 1
    for place in sorted(weights.keys() - packed.keys(), key=lambda p: (-weights[p], p)):
        lightest = min(range(min(most, count)), key=loads.__getitem__)
        packed[place] = lightest
        loads[lightest] += weights[place] + 1
    return packed
