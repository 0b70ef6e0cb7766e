"""What throw-away groups saw against the source: places proven by content, lost records counted."""

from __future__ import annotations

import bisect
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.plan import FailoverPlan
from mirrors.domain.failover.proof import Proof, Samples, Seen, prove
from mirrors.domain.failover.result import Loss, PlaceResult, Reading, place_result
from mirrors.domain.failover.shapes import PartitionPlan, PlacePlan
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import Place
from mirrors.kafka.connection import Partial
from mirrors.kafka.sampling import GroupReading, Window, read_windows
from mirrors.services.failover.failover_look import Look
from mirrors.services.failover.simulation_mixed import MixedPlaces
from mirrors.services.failover.simulation_reading import AFTER, Readings
from mirrors.services.failover.simulation_windows import (
    BEFORE,
    STRETCH,
    Bounds,
    countable_places,
    merge,
    source_windows,
    target_windows,
)

# What is read to learn how fast a group drains.
PROBE = 20_000
DEADLINE_S = 40.0
Tick = Callable[..., None]


class Rows:
    """Records of partitions, looked up by their offsets."""

    def __init__(self, found: Partial[Place, list[Seen]]) -> None:
        self._found = found.done
        self._offsets = {place: [row.offset for row in rows] for place, rows in found.done.items()}
        self.failed = found.failed

    def between(self, place: Place, start: int, end: int) -> list[Seen]:
        offsets = self._offsets.get(place, [])
        rows = self._found.get(place, [])
        return rows[bisect.bisect_left(offsets, start) : bisect.bisect_left(offsets, end)]

    def by_offset(self, place: Place) -> dict[int, Seen]:
        return {row.offset: row for row in self._found.get(place, [])}


def compare(
    *,
    source: ClusterSpec,
    target: ClusterSpec,
    look: Look,
    plan: FailoverPlan,
    readings: Readings,
    mixed: MixedPlaces,
    tick: Tick,
) -> tuple[list[PlaceResult], list[Loss]]:
    """A result for each place, and the loss of each partition."""
    bounds = {
        (row.topic, row.partition): Bounds(
            row.source_start or 0,
            row.position if row.position is not None else row.source_start or 0,
            row.source_end,
        )
        for row in look.picture.partitions
    }
    countable = countable_places(plan.partitions, bounds)
    theirs = None
    if not look.picture.source_trouble:
        plain = [row for row in plan.places if not mixed.has(row)]
        windows = source_windows(plain, bounds, countable)
        for place, more in mixed.windows().items():
            windows.setdefault(place, []).extend(more)
        theirs = _read(source, windows, tick, committed=look.committed)
    ours = _read(target, target_windows(plan.places, look.starts), tick)
    rate = _rate(target, plan.places, look.read_to, tick)
    losses = {
        (row.topic, row.partition): _loss(row, bounds, countable, theirs) for row in plan.partitions
    }
    sides = Sides(look=look, bounds=bounds, theirs=theirs, ours=ours)
    rows = [_result(row, sides, losses, readings, mixed, rate) for row in plan.places]
    return rows, list(losses.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sides:
    """What was seen of both; `theirs` is None where the source could not be asked."""

    look: Look
    bounds: Mapping[Place, Bounds]
    theirs: Rows | None
    ours: Rows


def _result(
    row: PlacePlan,
    sides: Sides,
    losses: Mapping[Place, Loss],
    readings: Readings,
    mixed: MixedPlaces,
    rate: float | None,
) -> PlaceResult:
    key, place = (row.group, row.topic, row.partition), (row.topic, row.partition)
    bounds, theirs = sides.bounds, sides.theirs
    loss = losses.get(place, Loss(records=None, unread=None, how="unknown"))
    if place not in losses and mixed.has(row):
        # What came from the target itself is there: nothing of it has to cross.
        loss = Loss(records=0, unread=0, how="counted")
    loss = dataclasses.replace(loss, unread=_unread(row, loss, bounds.get(place), theirs))
    reading, proof = None, None
    if key in readings.failed:
        reading = Reading(trouble=readings.failed[key].message)
    elif key in readings.done:
        reading = _reading(readings.done[key])
        proof = _proof(row, sides, readings.done[key], mixed)
    return place_result(row, loss=loss, reading=reading, proof=proof, rate=rate)


def _reading(seen: GroupReading) -> Reading:
    first = seen.seen[0] if seen.seen else None
    return Reading(
        first_offset=first.offset if first else None,
        first_timestamp=first.timestamp if first else None,
        first_record_ms=seen.first_ms,
        records=len(seen.seen),
        ended=seen.ended,
    )


def _proof(row: PlacePlan, sides: Sides, reading: GroupReading, mixed: MixedPlaces) -> Proof:
    place, theirs = (row.topic, row.partition), sides.theirs
    if theirs is None:
        return prove(Samples(source_after=None, target_after=reading.seen))
    if place in theirs.failed:
        return Proof(verdict="unproven", reason=theirs.failed[place].message)
    if mixed.has(row):
        return mixed.prove(
            row,
            after=reading.seen,
            before=_before(row, sides),
            theirs=theirs.by_offset(place),
            keeps_time=_keeps_time(row, sides),
        )
    samples = _samples(row, sides, theirs, reading)
    return samples if isinstance(samples, Proof) else prove(samples)


def _before(row: PlacePlan, sides: Sides) -> list[Seen]:
    """What lies on the target right before the group's place."""
    end = row.downstream_offset or 0
    return sides.ours.between((row.remote_topic, row.partition), end - STRETCH * BEFORE, end)


def _keeps_time(row: PlacePlan, sides: Sides) -> bool:
    topic = sides.look.topics[row.remote_topic]
    return topic.config("message.timestamp.type") != "LogAppendTime"


def _samples(row: PlacePlan, sides: Sides, theirs: Rows, reading: GroupReading) -> Samples | Proof:
    place, offset = (row.topic, row.partition), row.source_offset or 0
    topic, bounds = sides.look.topics[row.remote_topic], sides.bounds[place]
    if offset < bounds.start:
        words = f"the source keeps records from {bounds.start} on only, so nothing is to compare"
        return Proof(verdict="unproven", reason=words)
    before = theirs.between(place, offset - STRETCH * BEFORE, min(offset, bounds.position))
    if offset > bounds.position:
        before = theirs.between(place, bounds.position - STRETCH * BEFORE, bounds.position)
    after = theirs.between(place, offset, min(bounds.position, offset + STRETCH * AFTER))
    return Samples(
        source_after=after,
        target_after=reading.seen,
        last_consumed=before[-1] if before else None,
        target_before=_before(row, sides),
        keeps_time=_keeps_time(row, sides),
        compacted="compact" in (topic.config("cleanup.policy") or ""),
    )


def _unread(row: PlacePlan, loss: Loss, bounds: Bounds | None, theirs: Rows | None) -> int | None:
    if loss.how != "counted" or theirs is None or bounds is None or bounds.end is None:
        return row.unread_loss
    start = max(bounds.position, row.source_offset or 0)
    return len(theirs.between((row.topic, row.partition), start, bounds.end))


def _loss(
    row: PartitionPlan,
    bounds: Mapping[Place, Bounds],
    countable: set[Place],
    theirs: Rows | None,
) -> Loss:
    place = (row.topic, row.partition)
    if row.certainty != "observed" or row.loss is None:
        how = "unknown" if row.certainty == "unknown" else "last_known"
        return Loss(records=row.loss, unread=None, how=how)  # type: ignore[arg-type]
    if row.loss == 0:
        return Loss(records=0, unread=0, how="counted")
    if theirs is None or place in theirs.failed or place not in countable:
        return Loss(records=row.loss, unread=None, how="at_most")
    at = bounds[place]
    records = len(theirs.between(place, at.position, at.end or 0))
    return Loss(records=records, unread=None, how="counted")


def _rate(
    target: ClusterSpec, places: Iterable[PlacePlan], read_to: Mapping[Place, int], tick: Tick
) -> float | None:
    """Records a second that a reader here gets of the place with the most to read."""
    waiting = [row for row in places if row.waiting and row.downstream_offset is not None]
    if not waiting:
        return None
    most = max(waiting, key=lambda row: row.waiting or 0)
    place, start = (most.remote_topic, most.partition), most.downstream_offset or 0
    began = time.monotonic()
    end = min(start + PROBE, read_to.get(place, start))
    rows = _read(target, {place: [(start, end)]}, tick).between(place, start, end)
    return len(rows) / (time.monotonic() - began) if rows else None


def _read(
    spec: ClusterSpec,
    windows: Mapping[Place, list[Window]],
    tick: Tick,
    *,
    committed: bool = True,
) -> Rows:
    merged = {place: merge(rows) for place, rows in windows.items()}
    try:
        return Rows(
            read_windows(spec, merged, deadline_s=DEADLINE_S, committed=committed, tick=tick)
        )
    except UnderstudyError as error:
        if error.code in {"stopped", "timeout"}:
            raise
        return Rows(Partial(failed=dict.fromkeys(merged, error)))
