"""Sparklines: one figure over the last hour, as an SVG path."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

WIDTH, HEIGHT = 72, 18
CURVE_WIDTH, CURVE_HEIGHT = 480, 72


def path(
    values: Sequence[float | None], least_top: float, width: int = WIDTH, height: int = HEIGHT
) -> str:
    """An SVG path from left to right, y from zero, with breaks at unknown values.

    Values below `least_top` do not fill the height, so that noise looks small.
    """
    known = [value for value in values if value is not None]
    if not known or len(values) < 2:
        return ""
    top, step = max(*known, least_top), width / (len(values) - 1)
    parts: list[str] = []
    before: float | None = None
    for at, value in enumerate(values):
        if value is not None:
            # A segment of length 0 draws a single value as a dot.
            parts.append(
                f"{'M' if before is None else 'L'}{at * step:.1f} {_y(value, top, height)}"
            )
            parts.append("h0" if before is None else "")
        before = value
    return "".join(parts)


@dataclasses.dataclass(frozen=True)
class Sparkline:
    """The worst of several figures over time, the objective, and the times of transitions."""

    line: str
    objective: str
    # Distance of each transition from the left, in the given order.
    ticks: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def worst(self) -> float:
        return max(value for value in self.values if value is not None)

    @property
    def last(self) -> float:
        return next(value for value in reversed(self.values) if value is not None)


def sparkline(
    figures: Sequence[Sequence[float | None]],
    *,
    least_top: float,
    objective: float | None,
    changes: Sequence[datetime],
    start: datetime,
    span: timedelta,
) -> Sparkline | None:
    """None if every step is unknown."""
    columns = zip(*(values for values in figures if values), strict=True)
    steps = [[value for value in column if value is not None] for column in columns]
    worst = tuple(max(known) if known else None for known in steps)
    least_top = max(least_top, objective or 0.0)
    line = path(worst, least_top, CURVE_WIDTH, CURVE_HEIGHT)
    if not line:
        return None
    asked = ""
    if objective is not None:
        top = max(least_top, *(value for value in worst if value is not None))
        asked = f"M0 {_y(objective, top, CURVE_HEIGHT)}H{CURVE_WIDTH}"
    places = (min(1.0, max(0.0, (moment - start) / span)) for moment in changes)
    ticks = tuple(round(at * CURVE_WIDTH, 1) for at in places)
    return Sparkline(line, asked, ticks, worst)


def _y(value: float, top: float, height: int) -> str:
    return f"{height - 1 - value / top * (height - 2):.1f}"
