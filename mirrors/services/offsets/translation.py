"""Upstream offsets to downstream ones, from the index of runs alone: rows, no call to Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.offsets import Translation, nearest, translate_between
from mirrors.domain.runs import Block, Run
from mirrors.models import Flow, FlowPartition, PartitionMap
from mirrors.models.offsets import Wanted, blocks_around
from mirrors.services.backward import amend

Place = tuple[str, int]


def translate_offsets(
    *,
    flow: Flow,
    places: Mapping[Place, Iterable[int]],
    positions: Mapping[Place, int] | None = None,
) -> dict[Place, list[Translation]]:
    """For each partition one answer an offset, in the order asked; the index is taken as it is.

    `run_index.refresh_index` brings it up to date first, where Kafka may be called. `positions`:
    answers of the moment at which partitions were copied so far, though the index knows more now.
    """
    asked = {place: list(offsets) for place, offsets in places.items()}
    blocks = _Blocks(_current_maps(flow, asked, positions or {}), asked)
    reasons = _reasons(flow, {place for place in asked if not blocks.has(place)})
    answers = {
        place: [
            blocks.translate(place, offset)
            if place not in reasons
            else Translation(
                upstream=offset, downstream=None, outcome="unknown", reason=reasons[place]
            )
            for offset in offsets
        ]
        for place, offsets in asked.items()
    }
    return amend(flow=flow, answers=answers)


class _Map(NamedTuple):
    pk: int
    position: int


class _Blocks:
    """What is needed of the maps for the offsets asked."""

    def __init__(self, maps: Mapping[Place, _Map], asked: Mapping[Place, list[int]]) -> None:
        self._maps = maps
        self._around = blocks_around(
            self._wanted(place, offset)
            for place, offsets in asked.items()
            if place in maps
            for offset in offsets
        )
        self._known = {
            map_id
            for (map_id, _), found in self._around.items()
            if found.first is not None or found.above is not None
        }
        # Many offsets lie in one block: it is taken apart once.
        self._blocks: dict[tuple[int, int], Block] = {}

    def has(self, place: Place) -> bool:
        return place in self._maps and self._maps[place].pk in self._known

    def translate(self, place: Place, offset: int) -> Translation:
        at = self._wanted(place, offset)
        found = self._around[at]
        below = above = None
        if found.first is not None:
            below, above = self._block(at[0], found.first, found.body).around(at[1])
        # A block that begins within the one before it was copied again from there on, and counts.
        if found.above is not None and (above is None or found.above <= above.upstream):
            above = Run(found.above, found.above_downstream or 0, 1)
        position = self._maps[place].position
        return translate_between(offset, position=position, below=below, above=above)

    def _block(self, map_id: int, first: int, body: bytes | None) -> Block:
        known = self._blocks.get((map_id, first))
        if known is None:
            known = self._blocks[map_id, first] = Block(body or b"")
        return known

    def _wanted(self, place: Place, offset: int) -> Wanted:
        found = self._maps[place]
        return found.pk, nearest(offset, position=found.position)


def _current_maps(
    flow: Flow, places: Iterable[Place], positions: Mapping[Place, int]
) -> dict[Place, _Map]:
    asked = list(places)
    rows = PartitionMap.objects.filter(
        flow=flow,
        topic__in={topic for topic, _ in asked},
        partition__in={partition for _, partition in asked},
        position__isnull=False,
    ).order_by()
    return {
        (topic, partition): _Map(
            pk, min(at := position or 0, positions.get((topic, partition), at))
        )
        for topic, partition, pk, position in rows.values_list(
            "topic", "partition", "pk", "position"
        )
    }


def _reasons(flow: Flow, places: set[Place]) -> dict[Place, str]:
    """Why there is no map of these partitions."""
    if not places:
        return {}
    rows = FlowPartition.objects.filter(flow=flow, topic__in={topic for topic, _ in places})
    lanes = {(row.topic, row.partition): row.lane for row in rows}
    return {place: _why(flow, place, lanes.get(place)) for place in places}


def _why(flow: Flow, place: Place, lane: str | None) -> str:
    name = f"{place[0]}-{place[1]}"
    if lane is None:
        return f"{flow.name} does not copy {name}"
    if lane == "record":
        return f"{name} is copied record by record, and that lane writes no map of offsets"
    return f"no record of {name} that the map knows was copied yet"
