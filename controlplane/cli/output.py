"""What commands print: tables for people, JSON for programs. Errors go to the standard error."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirrors.domain.formatting import duration

# Wide enough that nothing is cut when the output goes to a file or a program.
_FILE_WIDTH = 400
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Age:
    """A column with the age of `seen_at` (ISO 8601), or `never`."""

    seen_at: Callable[[Row], str | None]

    def text(self, row: Row, now: datetime) -> str:
        seen = age_ms(self.seen_at(row), now)
        return "never" if seen is None else f"{duration(seen)} ago"


# A column: its heading, and the text of a row.
Fact = tuple[str, Callable[[Row], str]]
Column = Fact | tuple[str, Age]


def cell(column: Column, row: Row, now: datetime) -> str:
    show = column[1]
    return show.text(row, now) if isinstance(show, Age) else show(row)


def console() -> Console:
    wide = None if sys.stdout.isatty() else _FILE_WIDTH
    return Console(width=wide, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(
    columns: Sequence[Column], rows: Iterable[Row], empty: str, now: Callable[[], datetime]
) -> None:
    """One line per row; `empty` instead of a table without rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, _ in columns:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(column, row, now())) for column in columns))
    out = console()
    if table.row_count:
        out.print(table)
    else:
        out.print(escape(empty))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Name and value, a line each; facts without a value are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value:
            table.add_row(name, escape(value))
    console().print(table)


def say(sentence: str) -> None:
    """For the person, beside the output that a program reads."""
    sys.stderr.write(sentence + "\n")


def field(name: str) -> Callable[[Row], str]:
    """A column that shows a field as it is; nothing for null.

    Figures have thousands separators. What names a row, which a person types again, has none.
    """
    if name in ("id", "partition"):
        return lambda row: "" if row.get(name) is None else str(row[name])
    return lambda row: _text(row.get(name))


def age_ms(at: str | None, now: datetime) -> float | None:
    """Milliseconds since `at`, at least zero; None for a time that is not known."""
    if not at:
        return None
    return max((now - datetime.fromisoformat(at)).total_seconds() * 1000, 0.0)


def seen_at(row: Row) -> str | None:
    """When the source was observed for what is owed: the oldest observation in the figure."""
    at = (row.get("owed") or {}).get("as_of") or row.get("as_of")
    return None if at is None else str(at)


SEEN: Column = ("seen", Age(seen_at))


def owed(row: Row) -> str:
    """Records that the target does not hold yet, with how sure that is."""
    found = row.get("owed") or {}
    records, certainty = found.get("records"), found.get("certainty", "unknown")
    unknown = found.get("unknown_partitions") or 0
    if records is None or certainty == "unknown":
        return "unknown"
    bound = {"at_least": "at least ", "at_most": "at most "}.get(certainty, "")
    rest = f", unknown for {unknown:,} partitions" if unknown else ""
    return f"{bound}{records:,}{rest}"


def time_lag(row: Row) -> str:
    """Age of the oldest record owed; `at least` while some ages are unknown."""
    found = row.get("owed") or row
    age = found.get("time_lag_ms")
    if age is None:
        return "unknown" if found.get("records") != 0 else "-"
    bound = "at least " if found.get("time_lag_certainty") == "at_least" else ""
    return bound + duration(age)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
