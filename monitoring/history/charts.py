"""Plotly figures of samples; the only module that imports plotly.

Colors are names of CSS variables. The browser replaces them, so one figure fits both themes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from plotly import graph_objects as go

from mirrors.domain import formatting
from mirrors.models import Transition
from monitoring.domain.history import Sample

INK, SOFT, FAINT = "var(--ink)", "var(--ink-soft)", "var(--ink-faint)"
GRID, OBJECTIVE = "var(--line)", "var(--attention)"
_CLEAR = "rgba(0,0,0,0)"
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_BYTES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s"))


@dataclasses.dataclass(frozen=True)
class Chart:
    """One figure: its value in a sample, its text for people, and the units of its axis."""

    title: str
    value: Callable[[Sample], float | None]
    text: Callable[[float], str]
    units: Sequence[tuple[float, str]]


CHARTS = {
    "lag": Chart(
        "Behind",
        lambda sample: sample.offset_lag,
        lambda value: f"{value:,.0f} records",
        ((1, "records"),),
    ),
    "rpo": Chart(
        "RPO",
        lambda sample: _seconds(sample.time_lag_ms),
        lambda value: formatting.duration(value * 1000),
        _SECONDS,
    ),
    "records": Chart(
        "Records replicated",
        lambda sample: sample.records_per_second,
        lambda value: f"{formatting.rate(value)} records/s",
        ((1, "records/s"),),
    ),
    "bytes": Chart(
        "Bytes replicated",
        lambda sample: sample.bytes_per_second,
        lambda value: f"{formatting.size(value)}/s",
        _BYTES,
    ),
    "latency": Chart(
        "End to end",
        lambda sample: _seconds(sample.latency_ms),
        lambda value: formatting.duration(value * 1000),
        _SECONDS,
    ),
    "heartbeat": Chart(
        "Age of the newest heartbeat",
        lambda sample: _seconds(sample.heartbeat_age_ms),
        lambda value: formatting.duration(value * 1000),
        _SECONDS,
    ),
}


def figure(
    name: str,
    *,
    samples: Sequence[Sample],
    events: Iterable[Transition],
    span: tuple[datetime, datetime],
    objective: float | None = None,
) -> str:
    """The figure as JSON. `objective` is a line in the value's own unit."""
    chart = CHARTS[name]
    values = [chart.value(sample) for sample in samples]
    highest = max([value for value in values if value is not None], default=0.0)
    if objective is not None and objective <= highest * 20:
        highest = max(highest, objective)
    size, unit = next((found for found in chart.units if highest >= found[0] * 2), chart.units[-1])
    drawing = go.Figure(layout=_layout(unit, span, highest / size))
    drawing.add_trace(_line(chart, samples, values, size))
    drawing.add_trace(_ticks(list(events)))
    if objective is not None and objective <= highest * 20:
        line = {"color": OBJECTIVE, "width": 1, "dash": "dash"}
        drawing.add_hline(y=objective / size, line=line)
    text: str = drawing.to_json()
    return text


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _line(
    chart: Chart, samples: Sequence[Sample], values: Sequence[float | None], size: float
) -> go.Scatter:
    return go.Scatter(
        x=[_moment(sample.at) for sample in samples],
        y=[None if value is None else value / size for value in values],
        text=["" if value is None else chart.text(value) for value in values],
        mode="lines+markers" if len(samples) < 3 else "lines",
        line={"color": INK, "width": 1.5, "shape": "linear"},
        connectgaps=False,
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )


def _ticks(events: Sequence[Transition]) -> go.Scatter:
    """Events as short strokes on the axis."""
    return go.Scatter(
        x=[_moment(event.when) for event in events],
        y=[0] * len(events),
        text=[_event(event) for event in events],
        mode="markers",
        marker={
            "symbol": "line-ns-open",
            "size": 12,
            "color": SOFT,
            "line": {"width": 2, "color": SOFT},
        },
        cliponaxis=False,
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )


def _event(event: Transition) -> str:
    """Plotly interprets some HTML in texts: escape names from outside."""
    change = " → ".join(filter(None, (event.from_state, event.to_state))).replace("_", " ")
    text = formatting.visible(f"{change}, {event.who}")
    return text.replace("&", "&amp;").replace("<", "&lt;")[:120]


def _layout(unit: str, span: tuple[datetime, datetime], highest: float) -> go.Layout:
    axis = {"gridcolor": GRID, "linecolor": GRID, "zerolinecolor": GRID, "tickcolor": GRID}
    return go.Layout(
        template="none",
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        font={"color": SOFT, "size": 12},
        margin={"l": 56, "r": 12, "t": 8, "b": 44},
        height=236,
        hovermode="x unified",
        hoverlabel={"bgcolor": "var(--paper)", "bordercolor": GRID, "font": {"color": INK}},
        dragmode="zoom",
        xaxis={
            **axis,
            "type": "date",
            "range": [_moment(at) for at in span],
            "hoverformat": "%Y-%m-%d %H:%M:%S UTC",
        },
        yaxis={
            **axis,
            "rangemode": "tozero",
            "range": [0, highest * 1.08 or 1],
            "fixedrange": True,
            "title": {"text": unit, "font": {"size": 11, "color": FAINT}},
        },
    )


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
