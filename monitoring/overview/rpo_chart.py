"""RPO of the flows on the overview: minute by minute over the last hour, and as a chart."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from mirrors.domain.formatting import BEHIND_AFTER_MS, duration
from mirrors.models import Transition
from mirrors.models.drills.readiness import readiness_of
from monitoring.domain.history import FINE, MINUTE
from monitoring.domain.line_chart import WIDTH, Line, LineChart, line_chart, sparkline
from monitoring.domain.overview.data_loss import NOT_RUNNING
from monitoring.history import samples
from monitoring.models import LagSample

_SPAN = timedelta(hours=1)
_STEPS = int(_SPAN / MINUTE.step) + 1
# The chart begins with the first known minute, and has at least this number of them.
_LEAST_STEPS = 11
# Minutes that may not be aggregated yet are read from the fine samples.
_NOT_AGGREGATED = timedelta(minutes=4)
# Labels on the time axis, also at both ends.
_MARKS = 5


@dataclasses.dataclass(frozen=True)
class Tick:
    """A transition at its distance from the left edge."""

    change: Transition
    x: float


@dataclasses.dataclass(frozen=True)
class RpoChart:
    """The chart with its axes.

    `series` has a flow, or None for the others, with each line, in the order of drawing.
    `minutes` is the same as rows: RPO of the worst flow of each minute, for the download.
    `since` is the first minute with a value, None if the whole hour has one.
    """

    drawn: LineChart
    series: list[tuple[Any, Line]]
    start: datetime
    step_seconds: int
    levels: list[float]
    marks: list[datetime]
    ticks: list[Tick]
    not_drawn: int
    span: timedelta
    since: datetime | None
    minutes: list[dict[str, Any]]

    @property
    def legend(self) -> list[tuple[Any, Line, int]]:
        """Worst first, each with its number of minutes without a value."""
        return [
            (flow, line, _without_value(flow, line.values, self.start))
            for flow, line in self.series[::-1]
        ]


def set_trends(rows: Sequence[Any], now: datetime) -> None:
    """Set on each row its rate, its objective, its readiness score and its RPO by minute."""
    keys = [flow.pk for flow in rows]
    rates = samples.rates_now(now=now, flows=keys)
    trends = _trends(keys, now)
    scores = readiness_of(rows, now)
    for flow in rows:
        _, flow.bytes_per_second = rates.get(flow.pk, (None, None))
        flow.ready = scores[flow.pk].score if flow.pk in scores else None
        objective = getattr(flow, "objectives", None)
        flow.rpo_seconds = objective.rpo_seconds if objective else None
        values = flow.trend_values = trends.get(flow.pk, [])
        flow.trend = sparkline(values, (flow.rpo_seconds or BEHIND_AFTER_MS / 1000) * 1000)
        flow.trend_text = _trend_text(flow, values, MINUTE.slot(now - _SPAN))


def rpo_chart(rows: Sequence[Any], changed: Iterable[Transition], now: datetime) -> RpoChart | None:
    """One line per running flow of the rows of `set_trends`; None if nothing is known yet."""
    running = {flow.pk: flow for flow in rows if flow.observed_state not in NOT_RUNNING}
    wanted = [flow.rpo_seconds * 1000 for flow in running.values() if flow.rpo_seconds is not None]
    first = _first_known([flow.trend_values for flow in running.values()])
    left_out = min(first, _STEPS - _LEAST_STEPS)
    drawn = line_chart({pk: row.trend_values[left_out:] for pk, row in running.items()}, wanted)
    if drawn is None:
        return None
    start = MINUTE.slot(now - _SPAN) + left_out * MINUTE.step
    span = _SPAN - left_out * MINUTE.step
    width = span + MINUTE.step
    return RpoChart(
        drawn=drawn,
        series=[(running.get(line.key or 0), line) for line in drawn.lines],
        start=start,
        step_seconds=MINUTE.seconds,
        levels=[drawn.top, drawn.top / 2, 0],
        marks=[start + span * at / (_MARKS - 1) for at in range(_MARKS)],
        ticks=[
            Tick(change, round((change.when - start) / width * WIDTH, 1))
            for change in changed
            if change.when >= start
        ],
        not_drawn=len(rows) - len(running),
        span=span,
        since=start + (first - left_out) * MINUTE.step if first > 1 else None,
        minutes=[
            {
                "at": start + at * MINUTE.step,
                "rpo_ms": max((v for v in found if v is not None), default=None),
            }
            for at, found in enumerate(zip(*(line.values for line in drawn.lines), strict=True))
        ],
    )


def _trend_text(flow: Any, values: Sequence[float | None], start: datetime) -> str:
    highest = max((v for v in values if v is not None), default=None)
    if highest is None:
        return "unknown"
    missing = _without_value(flow, values, start)
    rest = f", unknown for {duration(missing * MINUTE.seconds * 1000)}" if missing else ""
    return f"at most {duration(highest)}{rest}"


def _without_value(flow: Any, values: Sequence[float | None], start: datetime) -> int:
    """Minutes without a value, while the flow existed; the last minute has not ended."""
    first = 0
    if flow is not None:
        first = max(0, (MINUTE.slot(flow.created_at) - start) // MINUTE.step)
    return sum(value is None for value in values[first:-1])


def _first_known(trends: Iterable[Sequence[float | None]]) -> int:
    """The first step with a value in any of them; `_STEPS` if there is none."""
    known = (at for values in trends for at, value in enumerate(values) if value is not None)
    return min(known, default=_STEPS)


def _trends(keys: Sequence[int], now: datetime) -> dict[int, list[float | None]]:
    """The age of the oldest record not replicated, for each minute; None if unknown."""
    first = MINUTE.slot(now - _SPAN)
    found = LagSample.objects.filter(flow__in=keys, at__lte=now).order_by()
    fields = ("flow_id", "at", "time_lag_ms")
    # A union: each half uses the index of flow, resolution and time.
    rows = found.filter(resolution=MINUTE.seconds, at__gte=first).values_list(*fields)
    since = MINUTE.slot(now - _NOT_AGGREGATED)
    fine = found.filter(resolution=FINE.seconds, at__gte=since).values_list(*fields)
    known: dict[int, dict[int, float]] = defaultdict(dict)
    for flow, at, lag in rows.union(fine, all=True):
        if lag is not None:
            step = (at - first) // MINUTE.step
            known[flow][step] = max(lag, known[flow].get(step, 0))
    return {flow: [lags.get(step) for step in range(_STEPS)] for flow, lags in known.items()}
