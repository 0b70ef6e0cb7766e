"""A line in a table's cell: the last hour of one figure as points of a small drawing."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 72, 18


def path(values: Sequence[float | None], least_top: float) -> str:
    """An SVG path from left to right, y from zero; it breaks where nothing is known.

    A figure that never passes `least_top` does not fill the height: noise shall look small.
    """
    known = [value for value in values if value is not None]
    if not known or len(values) < 2:
        return ""
    top, step = max(*known, least_top), WIDTH / (len(values) - 1)
    parts: list[str] = []
    pen_is_up = True
    for at, value in enumerate(values):
        if value is None:
            pen_is_up = True
            continue
        y = HEIGHT - 1 - value / top * (HEIGHT - 2)
        parts.append(f"{'M' if pen_is_up else 'L'}{at * step:.1f} {y:.1f}")
        pen_is_up = False
    return "".join(parts)
