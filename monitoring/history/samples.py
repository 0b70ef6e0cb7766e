"""Samples and events of a flow over the time range of a chart."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet

from mirrors.models import Flow, Transition
from monitoring.domain.history import (
    FINE,
    HOUR,
    MINUTE,
    Resolution,
    Sample,
    downsample,
    insert_breaks,
)
from monitoring.models import LagSample

_EVENTS = 100
_NOT_RUNNING = {"draft", "paused", "stopped", "failed_over"}
_FRESH_FOR = 4 * FINE.step
FIELDS = (
    "at",
    "offset_lag",
    "time_lag_ms",
    "records_per_second",
    "bytes_per_second",
    "out_of_sync",
    "unknown_partitions",
    "latency_ms",
    "heartbeat_age_ms",
)


@dataclasses.dataclass(frozen=True)
class Range:
    """A time range: its resolution in the database, and the width of one drawn step."""

    name: str
    label: str
    span: timedelta
    read: Resolution
    draw: timedelta


RANGES = {
    one.name: one
    for one in (
        Range("1h", "1 h", timedelta(hours=1), FINE, timedelta(seconds=10)),
        Range("24h", "24 h", timedelta(hours=24), MINUTE, timedelta(minutes=2)),
        Range("7d", "7 d", timedelta(days=7), HOUR, timedelta(hours=1)),
        Range("30d", "30 d", timedelta(days=30), HOUR, timedelta(hours=1)),
    )
}
DEFAULT = RANGES["1h"]


def samples(*, flow: Flow, over: Range, now: datetime) -> list[Sample]:
    """In time order. The newest steps, not yet aggregated, come from finer rows."""
    found: list[Sample] = []
    start = over.read.slot(now - over.span)
    for resolution in (HOUR, MINUTE, FINE):
        if resolution.seconds > over.read.seconds:
            continue
        rows = LagSample.objects.filter(
            flow=flow, resolution=resolution.seconds, at__gte=start, at__lte=now
        ).order_by("at")
        found += [
            Sample(**dict(zip(FIELDS, row, strict=True))) for row in rows.values_list(*FIELDS)
        ]
        if found:
            start = max(start, found[-1].at + resolution.step)
    return downsample(found, over.draw)


def samples_with_breaks(*, flow: Flow, over: Range, now: datetime) -> list[Sample]:
    """The same with breaks where samples are missing."""
    return list(insert_breaks(samples(flow=flow, over=over, now=now), over.draw))


def rates_now(
    *, now: datetime, flows: Collection[int] | None = None
) -> dict[int, tuple[float | None, float | None]]:
    """Current rates: flow id -> records and bytes per second; absent without a fresh sample.

    A flow that is not running has rate 0, even if its last sample is from before it stopped.
    Without `flows`, of all flows.
    """
    rows = LagSample.objects.filter(resolution=FINE.seconds, at__gte=now - _FRESH_FOR, at__lte=now)
    if flows is not None:
        rows = rows.filter(flow__in=flows)
    columns = ("flow_id", "flow__observed_state", "records_per_second", "bytes_per_second")
    return {
        flow: (0.0, 0.0) if state in _NOT_RUNNING else (records, size)
        for flow, state, records, size in rows.order_by("at").values_list(*columns)
    }


def events(*, flow: Flow, over: Range, now: datetime) -> QuerySet[Transition]:
    """The newest transitions of the flow in the range: states, requests, settings."""
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, when__gte=now - over.span)
    return rows.filter(when__lte=now).order_by("-id")[:_EVENTS]
