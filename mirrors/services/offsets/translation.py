"""Upstream offsets to downstream ones, from the index of runs alone: rows, no call to Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirrors.domain.offsets import Translation, nearest, translate_between
from mirrors.domain.runs import Block, Run
from mirrors.models import Flow, FlowPartition, PartitionMap, RunBlock
from mirrors.models.offsets import Wanted, blocks_around
from mirrors.services.backward import amend

Place = tuple[str, int]
_BATCH = 400


def translate_offsets(
    *, flow: Flow, places: Mapping[Place, Iterable[int]]
) -> dict[Place, list[Translation]]:
    """For each partition one answer an offset, in the order asked; the index is taken as it is.

    `run_index.refresh_index` brings it up to date first, where Kafka may be called.
    """
    asked = {place: list(offsets) for place, offsets in places.items()}
    blocks = _Blocks(_current_maps(flow, asked), asked)
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


class _Blocks:
    """What is needed of the maps for the offsets asked, in a handful of queries."""

    def __init__(
        self, maps: Mapping[Place, PartitionMap], asked: Mapping[Place, list[int]]
    ) -> None:
        self._maps = maps
        self._around = blocks_around(
            self._wanted(place, offset)
            for place, offsets in asked.items()
            if place in maps
            for offset in offsets
        )
        pairs = self._around.values()
        blocks = _rows({pk for pk, _ in pairs}, "map", "body")
        # Of the one after it counts where it begins alone.
        begins = _rows({pk for _, pk in pairs}, "map", "first", "downstream")
        self._known = {row[0] for row in (*blocks.values(), *begins.values())}
        # Many offsets lie in one block: it is taken apart once.
        self._blocks = {pk: Block(bytes(body)) for pk, (_, body) in blocks.items()}
        self._begins = {pk: Run(first, down, 1) for pk, (_, first, down) in begins.items()}

    def has(self, place: Place) -> bool:
        return place in self._maps and self._maps[place].pk in self._known

    def translate(self, place: Place, offset: int) -> Translation:
        at = self._wanted(place, offset)
        block, after = self._around[at]
        below, above = (None, None) if block is None else self._blocks[block].around(at[1])
        later = None if after is None else self._begins[after]
        # A block that begins within the one before it was copied again from there on, and counts.
        if later is not None and (above is None or later.upstream <= above.upstream):
            above = later
        position = self._maps[place].position or 0
        return translate_between(offset, position=position, below=below, above=above)

    def _wanted(self, place: Place, offset: int) -> Wanted:
        found = self._maps[place]
        return found.pk, nearest(offset, position=found.position or 0)


def _rows(ids: set[int | None], *fields: str) -> dict[int, list[Any]]:
    """Of these blocks the fields, by id."""
    wanted = sorted(pk for pk in ids if pk is not None)
    found: dict[int, list[Any]] = {}
    for start in range(0, len(wanted), _BATCH):
        rows = RunBlock.objects.filter(pk__in=wanted[start : start + _BATCH]).order_by()
        found |= {pk: rest for pk, *rest in rows.values_list("pk", *fields)}
    return found


def _current_maps(flow: Flow, places: Iterable[Place]) -> dict[Place, PartitionMap]:
    asked = list(places)
    rows = PartitionMap.objects.filter(
        flow=flow,
        topic__in={topic for topic, _ in asked},
        partition__in={partition for _, partition in asked},
        position__isnull=False,
    )
    return {(row.topic, row.partition): row for row in rows}


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
