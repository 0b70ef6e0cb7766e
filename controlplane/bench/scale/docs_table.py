"""The table of response times in the documentation: one row per page, columns per database.

A run replaces the columns of its own database, and keeps those of the other one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from controlplane.bench.scale.page_times import PageTimes

DOCUMENT = Path(__file__).parents[3] / "docs" / "performance-web.md"
_HEAD = (
    "| what | limit | queries | SQLite, p95 | SQLite, CPU | PostgreSQL, p95 | PostgreSQL, CPU |\n"
    "|---|---|---|---|---|---|---|\n"
)
_COLUMNS = {"sqlite": (0, 1), "postgresql": (2, 3)}
_NOT_MEASURED = "–"  # noqa: RUF001 - the sign of the documents for no figure


def write(found: Sequence[PageTimes], vendor: str, document: Path = DOCUMENT) -> None:
    """Rows of what is no longer measured go."""
    text = document.read_text()
    start = text.index(_HEAD) + len(_HEAD)
    end = text.index("\n\n", start) + 1
    rows = "".join(
        _row(one, figures, vendor) for one, figures in _with_known(found, text[start:end])
    )
    document.write_text(text[:start] + rows + text[end:])


def _with_known(found: Sequence[PageTimes], old: str) -> list[tuple[PageTimes, list[str]]]:
    """Each measurement with the four figures that the table has."""
    known = {}
    for line in old.splitlines():
        what, _, _, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        known[what] = figures
    return [(one, known.get(_name(one), [_NOT_MEASURED] * 4)) for one in found]


def _row(one: PageTimes, figures: list[str], vendor: str) -> str:
    p95, cpu = _COLUMNS[vendor]
    took = f"{one.p95_ms:.0f}"
    figures[p95] = took if one.holds else f"**{took}**"
    figures[cpu] = f"{statistics.median(one.cpu_ms):.0f}"
    cells = (_name(one), f"{one.limit_ms:,.0f}", str(one.queries), *figures)
    return f"| {' | '.join(cells)} |\n"


def _name(one: PageTimes) -> str:
    return f"`{one.what}`" if one.what.startswith("/") else one.what
