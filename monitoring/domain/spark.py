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
    before: float | None = None
    for at, value in enumerate(values):
        if value is not None:
            y = HEIGHT - 1 - value / top * (HEIGHT - 2)
            # A step of no length makes a dot of a figure that stands alone.
            parts.append(f"{'M' if before is None else 'L'}{at * step:.1f} {y:.1f}")
            parts.append("h0" if before is None else "")
        before = value
    return "".join(parts)
