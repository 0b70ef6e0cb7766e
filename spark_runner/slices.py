"""Which partitions one task copies: packed by weight, and staying where they are."""

from __future__ import annotations

from collections.abc import Mapping

from spark_runner.positions import Place


def pack(
    weights: Mapping[Place, int], most: int, present: Mapping[Place, int] | None = None
) -> dict[Place, int]:
    """Place -> slice index, in at most `most` slices.

    Sticky: a place that has a slice keeps it, since moving it costs a stop of both slices. New
    places go, heaviest first, where the least weight is. Indexes are 0, 1, 2, … without holes.
    """
    present = present or {}
    packed = {place: present[place] for place in weights if present.get(place, most) < most}
    count = max([min(most, len(weights)), *(index + 1 for index in packed.values())], default=0)
    loads = [0] * count
    for place, index in packed.items():
        loads[index] += weights[place] + 1
    for place in sorted(weights.keys() - packed.keys(), key=lambda p: (-weights[p], p)):
        lightest = min(range(count), key=loads.__getitem__)
        packed[place] = lightest
        loads[lightest] += weights[place] + 1
    return packed
