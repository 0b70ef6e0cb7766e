"""Which stretches of offsets a simulation reads: around each place, and what would be lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.failover.shapes import PartitionPlan, PlacePlan
from mirrors.kafka.admin import Place
from mirrors.kafka.sampling import Window
from mirrors.services.failover.simulation_reading import AFTER

BEFORE = 8
# A marker may stand behind each record.
STRETCH = 2
# What is read to count lost records; beyond it their number is told by offsets.
COUNT_A_PARTITION = 20_000
COUNT_IN_ALL = 200_000


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Of one source partition: what is there (`start`), copied (`position`) and committed."""

    start: int
    position: int
    end: int | None


def countable_places(
    partitions: Iterable[PartitionPlan], bounds: Mapping[Place, Bounds]
) -> set[Place]:
    """The partitions whose lost records are few enough to be read, fewest first."""
    left, chosen = COUNT_IN_ALL, set()
    for row in sorted(partitions, key=lambda row: row.loss or 0):
        loss = row.loss or 0
        if row.certainty == "observed" and 0 < loss <= min(left, COUNT_A_PARTITION):
            left -= loss
            chosen.add((row.topic, row.partition))
    return chosen


def source_windows(
    places: Iterable[PlacePlan], bounds: Mapping[Place, Bounds], countable: set[Place]
) -> dict[Place, list[Window]]:
    """By partition, which offsets [start, end) to read: around groups, and what would be lost."""
    windows: dict[Place, list[Window]] = {}
    for row in places:
        at = bounds.get((row.topic, row.partition))
        if at is None or row.source_offset is None or row.downstream_offset is None:
            continue
        near = min(row.source_offset, at.position)
        start = max(at.start, near - STRETCH * BEFORE)
        end = min(at.position, near + STRETCH * AFTER)
        windows.setdefault((row.topic, row.partition), []).append((start, end))
    for place in countable:
        start, end = bounds[place].position, bounds[place].end or 0
        windows.setdefault(place, []).append((max(start, bounds[place].start), end))
    return windows


def target_windows(
    places: Iterable[PlacePlan], starts: Mapping[Place, int]
) -> dict[Place, list[Window]]:
    windows: dict[Place, list[Window]] = {}
    for row in places:
        place = (row.remote_topic, row.partition)
        if row.downstream_offset is not None and place in starts:
            start = max(starts[place], row.downstream_offset - STRETCH * BEFORE)
            windows.setdefault(place, []).append((start, row.downstream_offset))
    return windows


def merge(windows: Iterable[Window]) -> list[Window]:
    """The same offsets in as few windows as can be: near ones become one."""
    found: list[Window] = []
    for start, end in sorted(window for window in windows if window[0] < window[1]):
        if found and start <= found[-1][1] + BEFORE:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
