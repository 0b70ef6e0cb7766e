"""The documented table of a large installation: each figure beside its limit."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from controlplane.bench.scale.large_parts import Row

DOCUMENT = Path(__file__).parents[3] / "docs" / "performance-scale.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
MEMORY_MB = 1_000.0
# A page is listed by name from this share of its limit on.
_NEAR = 0.5
PAGES = "web: pages and lists"


@dataclasses.dataclass(frozen=True)
class Part:
    """The rows of one process, and the most memory that it took."""

    name: str
    rows: tuple[Row, ...]
    peak_mb: float


@dataclasses.dataclass(frozen=True)
class Run:
    """`size`: what the database holds; `slack`: how many times its limit a figure may take."""

    size: str
    machine: str
    slack: float
    parts: tuple[Part, ...]

    def over(self) -> list[str]:
        """What is over its limit, slack included, each as a sentence."""
        found = []
        for part in self.parts:
            found += [
                f"{row.what}: {_ms(row.p95_ms)} of {_ms(row.limit_ms * self.slack)}"
                for row in part.rows
                if row.p95_ms > row.limit_ms * self.slack
            ]
            found += [
                f"{row.what}: {row.requests:,} requests of {row.most_requests:,}"
                for row in part.rows
                if row.requests > row.most_requests
            ]
            if part.peak_mb > MEMORY_MB:
                found.append(f"{part.name}: {part.peak_mb:,.0f} MB of {MEMORY_MB:,.0f} MB")
        return found


def text_of(run: Run) -> str:
    """The measured part of the document, and what the command prints."""
    tables = [_pages(part) if part.name == PAGES else _table(part) for part in run.parts]
    over = run.over()
    verdict = "Nothing is over its limit." if not over else "Over its limit: " + "; ".join(over)
    slack = f"Limits are those of a larger machine; here a figure may take {run.slack:g} times it."
    return "\n".join(
        (f"{run.size} {run.machine}", "", f"{slack} {verdict.rstrip('.')}.", "", *tables)
    )


def write_document(run: Run, document: Path = DOCUMENT) -> None:
    before, _, rest = document.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n{text_of(run)}\n{END}{after}")


_HEAD = "| what | limit | median | p95 | most | queries | times |\n|---|---|---|---|---|---|---|"


def _table(part: Part) -> str:
    rows = [_row(row) for row in part.rows]
    asked = [f"- {row.what}: {row.asked}{_requests(row)}." for row in part.rows if row.asked]
    if asked:
        asked = ["", "Requests to all brokers, and the partitions or groups in them:", "", *asked]
    return "\n".join((_title(part), _HEAD, *rows, *asked, ""))


def _pages(part: Part) -> str:
    """All pages as one row, and by name those near their limit."""
    near = sorted(
        (row for row in part.rows if row.p95_ms > row.limit_ms * _NEAR),
        key=lambda row: -row.p95_ms / row.limit_ms,
    )
    lines = [_title(part)]
    for limit in sorted({row.limit_ms for row in part.rows}, reverse=True):
        rows = [row for row in part.rows if row.limit_ms == limit]
        p95 = sorted(row.p95_ms for row in rows)
        inside = sum(row.p95_ms <= limit for row in rows)
        lines.append(
            f"{len(rows)} with a limit of {_ms(limit)}: {inside} within it; the p95 of one is "
            f"{_ms(statistics.median(p95))} in the median, {_ms(p95[-1])} at most.\n"
        )
    if near:
        lines += [f"Those above {_NEAR:.0%} of their limit:\n", _HEAD, *map(_row, near), ""]
    return "\n".join(lines)


def _title(part: Part) -> str:
    over = "**" if part.peak_mb > MEMORY_MB else ""
    return f"### {part.name.capitalize()}\n\nMost memory: {over}{part.peak_mb:,.0f} MB{over}.\n"


def _row(row: Row) -> str:
    bold = "**" if row.p95_ms > row.limit_ms else ""
    what = f"`{row.what}`" if row.what.startswith("/") else row.what
    queries = f"{row.queries:,}" if row.queries else ""
    cells = (
        what,
        _ms(row.limit_ms),
        _ms(row.median_ms),
        f"{bold}{_ms(row.p95_ms)}{bold}",
        _ms(row.most_ms),
        queries,
        str(row.times),
    )
    return f"| {' | '.join(cells)} |"


def _requests(row: Row) -> str:
    if not row.most_requests:
        return ""
    return f" (limit: {row.most_requests:,} requests)"


def _ms(value: float) -> str:
    if math.isinf(value):
        return "no page"
    return f"{value / 1000:,.1f} s" if value >= 1_000 else f"{value:.0f} ms"


def sized(sequence: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} {name}" for count, name in sequence)
