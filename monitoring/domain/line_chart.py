"""Line charts and sparklines as SVG paths: y from zero, breaks at unknown values.

The page draws them at once, without a script; CSS gives each flow its color.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 960, 160
SPARK_WIDTH, SPARK_HEIGHT = 72, 18
# More lines than this are drawn as one: the worst of the others.
MOST_LINES = 5
# An objective that is this many times higher than the highest value would flatten the lines.
OBJECTIVE_LIMIT = 12
# The top of an axis of milliseconds is one of these, so that its labels are round.
_ROUND_MS = tuple(
    count * unit
    for unit, counts in (
        (1_000, (2, 4, 10, 20, 40)),
        (60_000, (1, 2, 4, 10, 20, 40)),
        (3_600_000, (1, 2, 4, 12)),
        (86_400_000, (1, 2, 4, 10, 20, 40, 100, 400)),
    )
    for count in counts
)
Values = Sequence[float | None]


@dataclasses.dataclass(frozen=True)
class Line:
    """One line. `key` is the caller's; None for the worst of the lines that are not drawn."""

    key: int | None
    values: tuple[float | None, ...]
    path: str
    area: str

    @property
    def peak(self) -> float | None:
        return max((value for value in self.values if value is not None), default=None)

    @property
    def text(self) -> str:
        """The values for a script, with nothing between two commas where one is unknown."""
        return ",".join("" if value is None else f"{value:.0f}" for value in self.values)


@dataclasses.dataclass(frozen=True)
class LineChart:
    """Lines, the worst last so that it is on top; `top` is the value at the upper edge.

    `objectives` are values with their distance from the upper edge.
    """

    top: float
    lines: tuple[Line, ...]
    others: int
    objectives: tuple[tuple[float, float], ...]
    too_high: tuple[float, ...]


def round_top(value: float) -> float:
    """The lowest round duration (ms) of at least this value."""
    return next((top for top in _ROUND_MS if top >= value), value)


def line_chart(
    figures: Mapping[int, Values], objectives: Sequence[float] = (), *, top: float | None = None
) -> LineChart | None:
    """The chart of the values by key, each list of the same length; None if all are unknown."""
    known = {key: values for key, values in figures.items() if any(v is not None for v in values)}
    if not known:
        return None
    ranked = sorted(known, key=lambda key: (_peak(known[key]), -key), reverse=True)
    drawn, rest = ranked[:MOST_LINES], ranked[MOST_LINES:]
    highest = max(_peak(known[key]) for key in ranked)
    asked = sorted(set(objectives))
    shown = [value for value in asked if value <= max(highest, _ROUND_MS[0]) * OBJECTIVE_LIMIT]
    top = top or round_top(max([highest * 1.05, *shown]))
    lines = [_line(key, known[key], top) for key in reversed(drawn)]
    if rest:
        lines.insert(0, _line(None, _worst([known[key] for key in rest]), top))
    return LineChart(
        top=top,
        lines=tuple(lines),
        others=len(rest),
        objectives=tuple((value, round(_y(value, top), 1)) for value in shown),
        too_high=tuple(value for value in asked if value not in shown),
    )


def sparkline(values: Values, least_top: float) -> str:
    """A small line from left to right.

    Values below `least_top` do not fill the height, so that noise looks small.
    """
    known = [value for value in values if value is not None]
    if not known or len(values) < 2:
        return ""
    top, step = max(*known, least_top), SPARK_WIDTH / (len(values) - 1)
    parts: list[str] = []
    before: float | None = None
    for at, value in enumerate(values):
        if value is not None:
            height = f"{SPARK_HEIGHT - 1 - value / top * (SPARK_HEIGHT - 2):.1f}"
            # A segment of length 0 draws a single value as a dot.
            parts.append(f"{'M' if before is None else 'L'}{at * step:.1f} {height}")
            parts.append("h0" if before is None else "")
        before = value
    return "".join(parts)


def steps(values: Values, top: float) -> list[str]:
    """Each run of known values as a path of steps: a value holds until the next one."""
    width = WIDTH / max(1, len(values))
    found: list[str] = []
    before: float | None = None
    for at, value in enumerate(values):
        if value is not None:
            level, end = f"{_y(value, top):.1f}", f"{(at + 1) * width:.1f}"
            if before is None:
                found.append(f"M{at * width:.1f} {level}H{end}")
            else:
                found[-1] += f"V{level}H{end}" if value != before else f"H{end}"
        before = value
    return found


def _line(key: int | None, values: Values, top: float) -> Line:
    runs = steps(values, top)
    areas = [f"{run}V{HEIGHT}H{run[1:].split(' ', 1)[0]}Z" for run in runs]
    return Line(key, tuple(values), "".join(runs), "".join(areas))


def _worst(many: Sequence[Values]) -> list[float | None]:
    columns = zip(*many, strict=True)
    return [max((v for v in column if v is not None), default=None) for column in columns]


def _peak(values: Values) -> float:
    return max(value for value in values if value is not None)


def _y(value: float, top: float) -> float:
    return HEIGHT - 1 - min(1.0, value / top) * (HEIGHT - 2)
