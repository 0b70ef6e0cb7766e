"""The history of one topic and its partitions over a time range, as values of equal steps."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db.models import Max

from mirrors.models import Flow, FlowPartition, FlowTopic
from monitoring.domain.history import (
    FINE,
    HOUR,
    MINUTE,
    TOPIC_HOUR,
    TOPIC_MINUTE,
    TOPIC_RESOLUTIONS,
    Resolution,
)
from monitoring.models import FullStep, LagSample, PartitionSample, TopicSample

Figure = Literal["owed", "time_lag_ms", "records", "bytes"]
# Partitions with a line of their own.
TOP_PARTITIONS = 5
# Steps after which samples are surely aggregated.
_AGGREGATED = 3


@dataclasses.dataclass(frozen=True)
class TopicRange:
    """A time range, the width of one step, and the resolution that is read."""

    name: str
    label: str
    span: timedelta
    step: timedelta
    read: Resolution

    @property
    def steps(self) -> int:
        return self.span // self.step

    def start(self, now: datetime) -> datetime:
        """The first step; the last one contains `now`."""
        end = Resolution(round(self.step.total_seconds()), timedelta()).slot(now)
        return end - (self.steps - 1) * self.step


TOPIC_RANGES = {
    one.name: one
    for one in (
        TopicRange("1h", "1 h", timedelta(hours=1), timedelta(minutes=1), TOPIC_MINUTE),
        TopicRange("24h", "24 h", timedelta(hours=24), timedelta(minutes=10), TOPIC_MINUTE),
        TopicRange("7d", "7 d", timedelta(days=7), timedelta(hours=1), TOPIC_HOUR),
    )
}
DEFAULT = TOPIC_RANGES["1h"]


@dataclasses.dataclass(frozen=True)
class TopicSeries:
    """Values of each step from `start` on; None where nothing is known.

    `partitions`: owed records and time lag of the partitions that are furthest behind now.
    """

    start: datetime
    over: TopicRange
    topic: dict[Figure, list[float | None]]
    partitions: dict[int, dict[Figure, list[float | None]]]


def read_series(*, flow: Flow, topic: str, over: TopicRange, now: datetime) -> TopicSeries:
    """A step in which the flow reported and the topic has no sample is 0: nothing was replicated
    or owed."""
    start = over.start(now)
    reported = _reported_steps(flow, over, start, now)
    known = _without_full(reported, over, start, of_topics=True)
    rows = TopicSample.objects.filter(flow=flow, topic=topic, at__gte=start, at__lte=now)
    found = _of_resolution(rows, over, now)
    fields: tuple[Figure, ...] = ("owed", "time_lag_ms", "records", "bytes")
    values = list(found.values_list("at", *fields))
    series: dict[Figure, list[float | None]] = {}
    for number, name in enumerate(fields, 1):
        points = [(row[0], row[number]) for row in values]
        # Counts add up; what is owed is the worst of the step.
        series[name] = _steps(points, over, start, known, sum if number > 2 else max)
    known = _without_full(reported, over, start, of_topics=False)
    return TopicSeries(start, over, series, _partitions(flow, topic, over, now, known))


def worst_topics_over(
    *, flow: Flow, over: TopicRange, now: datetime, limit: int
) -> dict[str, list[float | None]]:
    """RPO (ms) by step of the topics that had the highest one in the range, highest first."""
    start = over.start(now)
    samples = TopicSample.objects.filter(flow=flow, at__gte=start, at__lte=now)
    # With names of topics, and in one condition, the database reads the samples of this flow alone.
    mine = FlowTopic.objects.filter(flow=flow).values("topic")
    rows = _of_resolution(samples.filter(topic__in=mine), over, now)
    highest = rows.order_by().values("topic").annotate(peak=Max("time_lag_ms"))
    worst = highest.filter(peak__gt=0).order_by("-peak", "topic")[:limit]
    names = [row["topic"] for row in worst]
    points: dict[str, list[tuple[datetime, int | None]]] = {name: [] for name in names}
    # Sorted by time, SQLite would read the samples of all flows.
    shown = _of_resolution(samples.filter(topic__in=names), over, now).order_by()
    for topic, at, lag in shown.values_list("topic", "at", "time_lag_ms"):
        points[topic].append((at, lag))
    known = set()
    if names:
        reported = _reported_steps(flow, over, start, now)
        known = _without_full(reported, over, start, of_topics=True)
    return {name: _steps(points[name], over, start, known, max) for name in names}


def _partitions(
    flow: Flow, topic: str, over: TopicRange, now: datetime, known: set[int]
) -> dict[int, dict[Figure, list[float | None]]]:
    behind = FlowPartition.objects.filter(flow=flow, topic=topic).exclude(offset_lag=0)
    worst = behind.order_by("-time_lag_ms", "-offset_lag", "partition")
    numbers = list(worst.values_list("partition", flat=True)[:TOP_PARTITIONS])
    start = over.start(now)
    rows = PartitionSample.objects.order_by().filter(
        flow=flow, topic=topic, partition__in=numbers, at__gte=start, at__lte=now
    )
    found: dict[int, list[tuple[datetime, int | None, int | None]]] = defaultdict(list)
    for number, at, owed, oldest in _of_resolution(rows, over, now).values_list(
        "partition", "at", "owed", "time_lag_ms"
    ):
        found[number].append((at, owed, oldest))
    return {
        number: {
            "owed": _steps([(at, owed) for at, owed, _ in found[number]], over, start, known, max),
            "time_lag_ms": _steps(
                [(at, oldest) for at, _, oldest in found[number]], over, start, known, max
            ),
        }
        for number in numbers
    }


def _of_resolution(rows: Any, over: TopicRange, now: datetime) -> Any:
    """Samples of the range's resolution; minutes of hours that are not aggregated yet."""
    if over.read is TOPIC_MINUTE:
        return rows.filter(resolution=TOPIC_MINUTE.seconds)
    hour = TOPIC_HOUR.slot(now)
    coarse = rows.filter(resolution=TOPIC_HOUR.seconds, at__lt=hour)
    return coarse | rows.filter(resolution=TOPIC_MINUTE.seconds, at__gte=hour)


def _reported_steps(flow: Flow, over: TopicRange, start: datetime, now: datetime) -> set[int]:
    """Steps in which the flow's runner reported; none before the first sample of any topic.

    Fine samples are read only where they may not be aggregated yet: there are many.
    """
    first = first_sample()
    if first is None:
        return set()
    coarse, *fine = (HOUR, MINUTE, FINE) if over.read is TOPIC_HOUR else (MINUTE, FINE)
    since = max(start, first)
    samples = LagSample.objects.filter(flow=flow, at__gte=since, at__lte=now).order_by()
    rows = samples.filter(resolution=coarse.seconds) | samples.filter(
        resolution__in=[one.seconds for one in fine], at__gte=now - _AGGREGATED * coarse.step
    )
    return {(at - start) // over.step for at in rows.values_list("at", flat=True)}


def _without_full(
    reported: set[int], over: TopicRange, start: datetime, *, of_topics: bool
) -> set[int]:
    """Without full steps (`FullStep`): there a topic or partition without a sample is unknown."""
    full = FullStep.objects.filter(of_topics=of_topics, at__gte=start)
    return reported - {(at - start) // over.step for at in full.values_list("at", flat=True)}


def first_sample() -> datetime | None:
    """The time of the oldest sample of a topic: one look-up in the index for each resolution."""
    rows = TopicSample.objects.order_by("resolution", "at").values_list("at", flat=True)
    found = (rows.filter(resolution=one.seconds).first() for one in TOPIC_RESOLUTIONS)
    return min((at for at in found if at is not None), default=None)


def _steps(
    points: Iterable[tuple[datetime, int | None]],
    over: TopicRange,
    start: datetime,
    known: set[int],
    merge: Callable[[Sequence[int]], int],
) -> list[float | None]:
    slots: dict[int, list[int]] = defaultdict(list)
    unknown: set[int] = set()
    for at, value in points:
        step = (at - start) // over.step
        if value is None:
            unknown.add(step)
        else:
            slots[step].append(value)
    return [
        merge(slots[step]) if step in slots else 0 if step in known - unknown else None
        for step in range(over.steps)
    ]
