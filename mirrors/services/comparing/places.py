"""Which stretch of each partition is compared with which of the target, by the map of offsets.

The target's ends are taken first and positions afterwards: all that the flow wrote below those ends
lies below these positions, so what is not known there was written by others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from django.db.models import Min

from mirrors.domain.comparing.chunks import CHUNK
from mirrors.domain.offsets import Translation
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin import Admin, At, Place
from mirrors.models import Comparison, ComparisonPart, PartitionMap, RunBlock
from mirrors.models.comparisons import PartVerdict
from mirrors.services.comparing.shape import Shape
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets

DEADLINE_S = 20.0
_STEPS = 2000
_BATCH = 500
_MIXED = (
    "With skip.replicated two directions are mixed in one topic, each cluster in an order of its "
    "own: there is no one order to compare."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """What both clusters say of one partition; None where they do not."""

    source_start: int | None
    source_end: int | None
    target_start: int | None
    target_end: int | None


def plan_parts(*, run: Comparison, spec: FlowSpec, shape: Shape, tick: Callable[[], None]) -> int:
    """Make the rows of all partitions; how many there are."""
    bounds, remote = _bounds(run, spec, shape, tick)
    maps = {
        (row.topic, row.partition): row
        for row in PartitionMap.objects.filter(flow=run.flow, position__isnull=False)
    }
    firsts = {
        map_id: (first, downstream)
        for map_id, first, downstream in RunBlock.objects.filter(map__flow=run.flow)
        .order_by()
        .values_list("map")
        .annotate(Min("first"), Min("downstream"))
    }
    planner = _Planner(run, spec, shape, remote)
    asked: dict[Place, list[int]] = {}
    for place, known in bounds.items():
        found = maps.get(place)
        head = firsts.get(found.pk) if found is not None else None
        if found is not None and head is not None and found.position is not None:
            asked[place] = [planner.first(known, head, found.position), found.position]
    answers = translate_offsets(flow=run.flow, places={**dict.fromkeys(bounds, ()), **asked})
    parts = [
        planner.part(place, known, asked.get(place), answers.get(place, []))
        for place, known in bounds.items()
    ]
    tick()
    ComparisonPart.objects.filter(comparison=run).delete()
    ComparisonPart.objects.bulk_create(parts, batch_size=_BATCH)
    return len(parts)


def _bounds(
    run: Comparison, spec: FlowSpec, shape: Shape, tick: Callable[[], None]
) -> tuple[dict[Place, Bounds], dict[str, str]]:
    """In this order: the target's ends, positions and runs, the source's ends."""
    theirs, ours = shape.pictures
    remote = {row.topic: row.remote_topic for row in shape.copied}
    places = [(row.topic, number) for row in shape.copied for number in range(row.partitions)]
    there = {
        place: (remote[place[0]], place[1])
        for place in places
        if remote[place[0]] in ours.topics and place[1] < ours.topics[remote[place[0]]].partitions
    }
    level: At = "stable" if spec.settings.isolation_level == "read_committed" else "latest"
    with Admin(spec.target) as target:
        ends = target.list_offsets(there.values(), "stable", deadline_s=DEADLINE_S).done
        starts = target.list_offsets(there.values(), "earliest", deadline_s=DEADLINE_S).done
    tick()
    refresh_index(flow=run.flow)
    tick()
    here = [place for place in places if place[0] in theirs.topics]
    with Admin(spec.source) as source:
        first = source.list_offsets(here, "earliest", deadline_s=DEADLINE_S).done
        last = source.list_offsets(here, level, deadline_s=DEADLINE_S).done
    tick()
    return {
        place: Bounds(
            source_start=first.get(place),
            source_end=last.get(place),
            target_start=starts.get(there[place]) if place in there else None,
            target_end=ends.get(there[place]) if place in there else None,
        )
        for place in places
    }, remote


class _Planner:
    def __init__(
        self, run: Comparison, spec: FlowSpec, shape: Shape, remote: Mapping[str, str]
    ) -> None:
        self._run = run
        self._spec = spec
        self._pictures = shape.pictures
        self._remote = remote

    def first(self, known: Bounds, head: tuple[int, int], position: int) -> int:
        """The source offset from which on the target must have everything that was asked for."""
        start = known.source_start or 0
        begins = head[0]
        if self._spec.settings.start_from == "earliest" and head[1] == 0:
            # The flow wrote the target's first record, so nothing before it was left to others.
            begins = min(begins, start)
        first = max(start, begins)
        if self._run.records is not None:
            first = max(first, position - self._run.records)
        return min(first, position)

    def part(
        self,
        place: Place,
        known: Bounds,
        asked: list[int] | None,
        answers: Iterable[Translation],
    ) -> ComparisonPart:
        part = ComparisonPart(
            comparison=self._run,
            topic=place[0],
            partition=place[1],
            remote_topic=self._remote[place[0]],
            **self._kinds(place[0]),
        )
        if why := self._obstacle(known, asked):
            return _unread(part, known, why)
        if asked is None:
            part.verdict = PartVerdict.SAME
            part.reason = "Both sides are empty."
            return part
        below = [row.downstream for row in answers]
        if None in below:
            return _unread(part, known, "The map of offsets does not say where it lies there.")
        first, position = asked
        target_first, end = below[0] or 0, below[1] or 0
        target_start = known.target_start or 0
        if target_first < target_start:
            first, target_first, why = self._kept(place, first, position, target_start)
            part.unread, part.reason = first - asked[0], why
        part.source_first = part.next = first
        part.source_end = position
        part.target_first = max(target_first, target_start)
        part.target_end = max(end, known.target_end or 0, part.target_first)
        return part

    def _obstacle(self, known: Bounds, asked: list[int] | None) -> str:
        if known.target_end is None or known.source_end is None:
            side = "target" if known.target_end is None else "source"
            return f"The {side} has no such partition, or does not say where it ends."
        if self._spec.settings.skip_replicated:
            return _MIXED
        empty = known.source_start == known.source_end
        if asked is None and not (empty and known.target_start == known.target_end):
            return (
                "There is no map of its offsets: nothing of it was copied yet, or by a lane that "
                "writes none."
            )
        return ""

    def _kinds(self, topic: str) -> dict[str, bool]:
        theirs, ours = self._pictures
        sides = [theirs.topics.get(topic), ours.topics.get(self._remote[topic])]
        policies = [side.config("cleanup.policy") or "" for side in sides if side is not None]
        kept = [side.config("message.timestamp.type") for side in sides if side is not None]
        return {
            "compacted": any("compact" in policy for policy in policies),
            "keeps_time": "LogAppendTime" not in kept[1:],
        }

    def _kept(self, place: Place, first: int, position: int, start: int) -> tuple[int, int, str]:
        """Where the target's own retention lets it begin."""
        step = max(CHUNK, (position - first) // _STEPS + 1)
        offsets = [*range(first, position, step), position]
        rows = translate_offsets(flow=self._run.flow, places={place: offsets})[place]
        for row in _known(rows):
            if row[1] >= start:
                why = f"The target keeps records from offset {start} on only."
                return row[0], row[1], why
        return position, start, "The target keeps none of the records that the source has."


def _known(rows: Iterable[Translation]) -> Iterator[tuple[int, int]]:
    for row in rows:
        if row.downstream is not None:
            yield row.upstream, row.downstream


def _unread(part: ComparisonPart, known: Bounds, why: str) -> ComparisonPart:
    part.verdict, part.reason = PartVerdict.UNREAD, why
    part.unread = max(0, (known.source_end or 0) - (known.source_start or 0))
    return part
