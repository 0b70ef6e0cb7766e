"""Plotly figures of samples; the only module that imports plotly.

Colors are names of CSS variables. The browser replaces them, so one figure fits both themes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from plotly import graph_objects as go

from mirrors.domain import formatting
from mirrors.models import Transition
from monitoring.domain.history import Sample
from monitoring.domain.line_chart import Line, line_chart

INK, SOFT, FAINT = "var(--ink)", "var(--ink-soft)", "var(--ink-faint)"
# The flow's own color; its page sets it.
SERIES, AREA = "var(--series)", "var(--series-area)"
GRID, OBJECTIVE = "var(--line)", "var(--attention)"
_CLEAR = "rgba(0,0,0,0)"
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_BYTES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s"))


@dataclasses.dataclass(frozen=True)
class Chart:
    """One figure: its value in a sample, its text for people, and the units of its axis.

    `is_stepped`: a value holds until the next one; a line between two would show values that were
    never observed.
    """

    title: str
    value: Callable[[Sample], float | None]
    text: Callable[[float], str]
    units: Sequence[tuple[float, str]]
    is_stepped: bool = False


CHARTS = {
    "lag": Chart(
        "Lag",
        lambda sample: sample.offset_lag,
        lambda value: f"{value:,.0f} records",
        ((1, "records"),),
        is_stepped=True,
    ),
    "rpo": Chart(
        "RPO",
        lambda sample: _seconds(sample.time_lag_ms),
        lambda value: formatting.duration(value * 1000),
        _SECONDS,
        is_stepped=True,
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
    # For the heading, which the page updates with the figure.
    drawing.update_layout(meta=summary(name, samples))
    drawing.add_trace(_line(chart, samples, values, size))
    drawing.add_trace(_ticks(list(events)))
    drawing.add_traces(_areas(chart, samples, values, size))
    if objective is not None and objective <= highest * 20:
        line = {"color": OBJECTIVE, "width": 1, "dash": "dash"}
        drawing.add_hline(y=objective / size, line=line)
    text: str = drawing.to_json()
    return text


def summary(name: str, samples: Sequence[Sample]) -> dict[str, str]:
    """The newest value and the highest one, as text."""
    chart = CHARTS[name]
    values = [chart.value(sample) for sample in samples]
    known = [value for value in values if value is not None]
    return {
        "now": chart.text(values[-1]) if values and values[-1] is not None else "unknown",
        "peak": chart.text(max(known)) if known else "unknown",
    }


def first_frame(
    name: str, samples: Sequence[Sample], span: tuple[datetime, datetime], step: timedelta
) -> Line | None:
    """The line as SVG, which the page has at once; the script's chart replaces it."""
    chart = CHARTS[name]
    slots: list[float | None] = [None] * max(1, round((span[1] - span[0]) / step))
    last = -1
    for sample in samples:
        at = (sample.at - span[0]) // step
        if not 0 <= at < len(slots):
            continue
        slots[at] = chart.value(sample)
        # As in `insert_breaks`: a step or two without a sample is no break.
        if slots[at] is not None and 0 <= last < at <= last + 3:
            slots[last + 1 : at] = [slots[last]] * (at - last - 1)
        last = at
    highest = max((value for value in slots if value is not None), default=0.0)
    drawn = line_chart({0: slots}, top=highest * 1.08 or 1.0)
    return drawn.lines[0] if drawn else None


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
        line={"color": SERIES, "width": 1.5, "shape": "hv" if chart.is_stepped else "linear"},
        connectgaps=False,
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )


def _areas(
    chart: Chart, samples: Sequence[Sample], values: Sequence[float | None], size: float
) -> list[go.Scatter]:
    """One area for each run of known values: Plotly fills through the gaps of a line."""
    runs: list[list[tuple[str, float]]] = [[]]
    for sample, value in zip(samples, values, strict=True):
        if value is not None:
            runs[-1].append((_moment(sample.at), value / size))
        elif runs[-1]:
            runs.append([])
    return [
        go.Scatter(
            x=[at for at, _ in run],
            y=[value for _, value in run],
            mode="none",
            line={"shape": "hv" if chart.is_stepped else "linear"},
            fill="tozeroy",
            fillcolor=AREA,
            hoverinfo="skip",
            showlegend=False,
        )
        for run in runs
        if len(run) > 1
    ]


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
