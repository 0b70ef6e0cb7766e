"""Status files: what the driver knows of a flow, folded from plan, figures and ends.

Nothing here talks to anybody; the flow's thread feeds it and writes the file, whole and renamed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path

from mirrors.domain.continuity.strangers import Stretch
from mirrors.domain.jobs import (
    JobSpec,
    JobState,
    JobStatus,
    PartitionStatus,
    SliceStatus,
    TopicState,
    TopicStatus,
)
from mirrors.launcher import status_path, write_whole
from spark_runner.draft import Plan
from spark_runner.ends import Ends
from spark_runner.positions import Place
from spark_runner.work import PartitionError, PartitionFigure

# Who is so far behind for so long is catching up; less is the beat of commits.
LAGGING_MS = 10_000
# The control plane takes them up every two seconds.
MOST_STRANGERS = 200


class _Row:
    """What is known of one partition."""

    __slots__ = (
        "caught_up_at",
        "end",
        "ends_as_of",
        "lane",
        "left_out",
        "position",
        "stable",
        "strangers",
        "timestamp",
    )

    def __init__(self, position: int | None) -> None:
        self.position = position
        self.timestamp: int | None = None
        self.end: int | None = None
        self.stable: int | None = None
        self.ends_as_of = 0
        self.lane = ""
        self.left_out = 0
        # The newest of what others wrote into the remote partition.
        self.strangers: deque[Stretch] = deque(maxlen=MOST_STRANGERS)
        self.caught_up_at: int | None = None

    def moved(self, figure: PartitionFigure, now: int) -> None:
        self.position, self.lane = figure.position, figure.lane
        self.left_out += figure.left_out
        self.strangers.extend(figure.strangers)
        self.timestamp = figure.timestamp or self.timestamp
        # The ends were asked a moment ago, and what was copied since was there: never behind it.
        self.end = None if self.end is None else max(self.end, figure.position)
        self.stable = None if self.stable is None else max(self.stable, figure.position)
        self._look(now)

    def reaches(self, end: int | None, stable: int | None, as_of: int) -> None:
        reached = self.position or 0
        self.end = self.end if end is None else max(end, reached)
        self.stable = self.stable if stable is None else max(stable, reached)
        self.ends_as_of = as_of
        self._look(as_of)

    def _look(self, now: int) -> None:
        if self.position is not None and self.stable is not None and self.position >= self.stable:
            self.caught_up_at = now

    def time_lag(self, now: int) -> int | None:
        """Age of the oldest record not yet copied: at most the time since there was none."""
        if self.position is None or self.stable is None:
            return None
        if self.position >= self.stable:
            return 0
        known = [t for t in (self.caught_up_at, self.timestamp) if t is not None]
        return max(0, now - max(known)) if known else None


class Board:
    """One flow's state of affairs; used by the flow's thread only."""

    def __init__(self, job: JobSpec, now: int) -> None:
        self.job = job
        self.started_at = now
        self.records = 0
        self.bytes = 0
        self.errors: dict[Place, PartitionError] = {}
        # What a person asked for that makes the flow slower.
        self.held_back = ""
        self._plan: Plan | None = None
        self._rows: dict[Place, _Row] = {}

    def planned(self, plan: Plan) -> None:
        self._plan = plan
        for place in plan.resumed:
            self._rows.pop(place, None)
            self.errors.pop(place, None)
        self._rows = {
            place: self._rows.get(place) or _Row(work.start)
            for place, work in plan.partitions.items()
        } | {
            place: self._rows.get(place) or _Row(error.offset)
            for place, error in plan.stopped.items()
        }
        self.errors = {place: e for place, e in self.errors.items() if place in self._rows}
        self.errors |= plan.stopped

    def moved(self, figures: Iterable[PartitionFigure], now: int) -> None:
        for figure in figures:
            row = self._rows.get((figure.topic, figure.partition))
            if row is not None:
                row.moved(figure, now)

    def failed(self, errors: Iterable[PartitionError]) -> None:
        for error in errors:
            self.errors[error.topic, error.partition] = error

    def gaps(self) -> dict[Place, PartitionError]:
        return {place: error for place, error in self.errors.items() if error.state == "gap"}

    def unnumbered(self) -> set[tuple[Place, int | None]]:
        """Gaps of which only the lane has spoken, or not from where the partition stands now."""
        return {
            (place, self._rows[place].position)
            for place, error in self.gaps().items()
            if place in self._rows
            and (error.gap is None or error.gap.position != self._rows[place].position)
        }

    def reaches(self, ends: Ends) -> None:
        for place, row in self._rows.items():
            row.reaches(ends.end.get(place), ends.stable.get(place), ends.as_of)

    def positions(self) -> dict[Place, int]:
        return {p: row.position for p, row in self._rows.items() if row.position is not None}

    def is_moving(self) -> bool:
        """Whether the source holds something that was not copied when it was last asked."""
        return any(row.stable is None or row.position != row.stable for row in self._rows.values())

    def reached(self) -> str:
        """What a bounded run has reached, in words; empty while it has not."""
        plan = self._plan
        if plan is None or not plan.until or self.errors:
            return ""
        for place, work in plan.partitions.items():
            position = self._rows[place].position
            if position is None or position < (work.stop or 0):
                return ""
        return f"Reached {plan.until}."

    def places(self) -> list[Place]:
        return list(self._rows)

    def status(
        self,
        state: JobState,
        reason: str,
        slices: Iterable[SliceStatus],
        now: int,
    ) -> JobStatus:
        partitions = [self._partition(place, row, state, now) for place, row in self._rows.items()]
        partitions.sort(key=lambda row: (row.topic, row.partition))
        return JobStatus(
            job=self.job.job,
            flow=self.job.flow,
            generation=self.job.generation,
            state=state,
            reason=reason,
            started_at=self.started_at,
            as_of=now,
            records=self.records,
            bytes=self.bytes,
            warnings=self._plan.warnings if self._plan else (),
            topics=tuple(self._topics(partitions)),
            partitions=tuple(partitions),
            slices=tuple(slices),
        )

    def _partition(self, place: Place, row: _Row, state: JobState, now: int) -> PartitionStatus:
        work = self._plan.partitions.get(place) if self._plan else None
        error = self.errors.get(place)
        time_lag = row.time_lag(now)
        shown = _state(row, error, state, time_lag)
        held = self.held_back if shown in ("lagging", "syncing") else ""
        held = held or self._left_out(row.left_out)
        return PartitionStatus(
            topic=place[0],
            partition=place[1],
            remote_topic=work.remote_topic if work else "",
            state=shown,
            reason=error.reason if error else held,
            position=row.position,
            source_end=row.end,
            source_stable_end=row.stable,
            time_lag_ms=time_lag,
            lane=row.lane,
            as_of=row.ends_as_of,
            gap=error.gap if error else None,
            remote_topic_id=work.remote_topic_id if work and row.strangers else "",
            strangers=tuple(row.strangers),
        )

    def _left_out(self, count: int) -> str:
        if not count:
            return ""
        return (
            f"{count} records were left out since the start: other flows wrote them on "
            f"{self.job.source.alias} (skip.replicated)."
        )

    def _topics(self, partitions: list[PartitionStatus]) -> Iterable[TopicStatus]:
        worst: dict[str, PartitionStatus] = {}
        left_out: Counter[str] = Counter()
        for (name, _), place in self._rows.items():
            left_out[name] += place.left_out
        for row in partitions:
            known = worst.get(row.topic)
            if known is None or _RANK[row.state] > _RANK[known.state]:
                worst[row.topic] = row
        for topic in self._plan.topics if self._plan else ():
            found = worst.get(topic.topic)
            if found is None:
                yield topic
                continue
            yield TopicStatus(
                topic=topic.topic,
                remote_topic=topic.remote_topic,
                state=found.state,
                reason=self._left_out(left_out[topic.topic]) or found.reason or topic.reason
                if found.state in _WELL
                else found.reason or topic.reason,
                partitions=topic.partitions,
            )


_WELL = ("in_sync", "syncing", "paused")
_RANK: dict[TopicState, int] = {
    "skipped": 0,
    "in_sync": 1,
    "paused": 2,
    "syncing": 3,
    "lagging": 4,
    "pending": 5,
    "faulted": 6,
    "gap": 7,
}


def _state(
    row: _Row, error: PartitionError | None, flow: JobState, time_lag: int | None
) -> TopicState:
    if error is not None:
        return error.state
    if flow in ("paused", "stopped"):
        return "paused"
    if row.stable is None or row.position is None:
        return "pending"
    if row.position >= row.stable:
        return "in_sync"
    return "lagging" if time_lag is None or time_lag > LAGGING_MS else "syncing"


def write_status(directory: Path, status: JobStatus) -> None:
    write_whole(status_path(directory, status.flow), status.to_json())
