"""Tables of pages: searched, filtered, sorted and paged in the database; their downloads."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import F, Model, OrderBy, Q, QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from mirrors.domain.account.totals import CERTAINTY_OF, LOWER_BOUNDS
from mirrors.lists.columns import Column, ListSpec
from mirrors.services.clock import milliseconds

PAGE_SIZE = 50
_MARKS = "=+-@\t\r"


@dataclasses.dataclass(frozen=True)
class Heading:
    """A column's heading on the page: the link of a click, and the sort direction."""

    column: Column
    link: str = ""
    direction: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """What a template shows: headings, one page of rows, search and filters."""

    name: str
    headings: list[Heading]
    page: Page[Any]
    search: str
    filtered: bool
    chosen: dict[str, str]

    @property
    def total(self) -> int:
        return self.page.paginator.count


def table_of(request: HttpRequest, spec: ListSpec, rows: QuerySet[Any]) -> Table:
    """The table of a request. Invalid parameters are ignored, so that any link shows rows."""
    search = clean(request.GET.get("q", ""))
    chosen = _chosen(request, spec)
    found = _sorted(request, spec, _searched(spec, rows, search).filter(**chosen))
    return _table(request, spec, found, search, chosen)


def table_of_names(
    request: HttpRequest,
    spec: ListSpec,
    names: Iterable[str],
    rows: Callable[[list[str]], Iterable[Any]],
) -> Table:
    """The table of expensive rows: `rows` is called only with the names on one page.

    `names` and `rows` are in the order of the default column.
    """
    _, down = _sort(request, spec)
    search = clean(request.GET.get("q", ""))
    found = [name for name in names if search.casefold() in name.casefold()]
    table = _table(request, spec, found[::-1] if down else found, search, {})
    made = list(rows(list(table.page)))
    table.page.object_list = made[::-1] if down else made
    return table


def is_sorted_by_default(request: HttpRequest, spec: ListSpec) -> bool:
    """Whether the table is sorted by its default column."""
    return _sort(request, spec)[0].key == spec.default


def _table(
    request: HttpRequest, spec: ListSpec, found: Any, search: str, chosen: dict[str, str]
) -> Table:
    return Table(
        name=spec.name,
        headings=[_heading(request, spec, column) for column in spec.headings],
        page=Paginator(found, PAGE_SIZE).get_page(request.GET.get("page")),
        search=search,
        filtered=bool(search or chosen),
        chosen=chosen,
    )


def export(
    request: HttpRequest,
    spec: ListSpec,
    rows: QuerySet[Any],
    name: str,
    mark: Callable[[Any], Any] = lambda row: row,
) -> StreamingHttpResponse | None:
    """The whole list as CSV, JSON or JSON lines if the address asks for it (`?as=csv`), else None.

    `?of=` asks for another table of the same page.
    """
    kind = request.GET.get("as")
    if kind not in _FORMATS or request.GET.get("of"):
        return None
    rows = _searched(spec, rows, clean(request.GET.get("q", "")))
    rows = _sorted(request, spec, rows.filter(**_chosen(request, spec)))
    return download(kind, spec, map(mark, rows.iterator(chunk_size=1000)), name)


def _chosen(request: HttpRequest, spec: ListSpec) -> dict[str, str]:
    return {
        field: value
        for field, allowed in spec.filters.items()
        if (value := request.GET.get(field, "")) in allowed
    }


def _searched(spec: ListSpec, rows: QuerySet[Any], search: str) -> QuerySet[Any]:
    if not search:
        return rows
    texts = [Q(**{f"{field}__icontains": search}) for field in spec.search]
    return rows.filter(reduce(or_, texts))


def _sort(request: HttpRequest, spec: ListSpec) -> tuple[Column, bool]:
    given = request.GET.get("sort", spec.default)
    known = {column.key: column for column in spec.headings if column.sort}
    if given.removeprefix("-") not in known:
        given = spec.default
    return known[given.removeprefix("-")], given.startswith("-")


def _sorted(request: HttpRequest, spec: ListSpec, rows: QuerySet[Any]) -> QuerySet[Any]:
    column, down = _sort(request, spec)
    # Unknown values come last in both directions.
    order: list[OrderBy] = [
        F(field).desc(nulls_last=True) if down else F(field).asc(nulls_last=True)
        for field in column.sort
    ]
    return rows.order_by(*order, *spec.tie)


def _heading(request: HttpRequest, spec: ListSpec, column: Column) -> Heading:
    if not column.sort:
        return Heading(column)
    current, down = _sort(request, spec)
    direction = ("descending" if down else "ascending") if current is column else ""
    # The first click sorts numbers descending and names ascending.
    turn = not down if direction else column.number
    query = request.GET.copy()
    query.pop("page", None)
    query.pop("as", None)
    query["sort"] = f"-{column.key}" if turn else column.key
    return Heading(column, f"?{query.urlencode()}", direction)


def clean(text: str) -> str:
    """A search text without control characters (PostgreSQL rejects NUL), at most 255 long."""
    return "".join(sign for sign in text if sign.isprintable()).strip()[:255]


def download(kind: str, spec: ListSpec, rows: Iterable[Any], name: str) -> StreamingHttpResponse:
    """Rows as a streamed file."""
    columns = spec.file_columns
    mime, write = _FORMATS[kind]
    facts = (_facts(columns, row, milliseconds(timezone.now())) for row in rows)
    return StreamingHttpResponse(
        write([column.key for column in columns], facts),
        content_type=f"{mime}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.{kind}"'},
    )


class _LineBuffer:
    """A file for csv.writer whose `write` returns the line."""

    def write(self, line: str) -> str:
        return line


def _facts(columns: Iterable[Column], row: Any, now: int) -> dict[str, Any]:
    return {column.key: _plain(_exact(row, column, now)) for column in columns}


def _exact(row: Any, column: Column, now: int) -> Any:
    """A figure that a file can have: it has no sign for a lower bound."""
    value = value_of(row, column.key)
    if not column.total or value is None:
        return value
    total = value_of(row, column.total)
    is_bound = getattr(total.as_of(now), CERTAINTY_OF[column.key]) in LOWER_BOUNDS
    return None if is_bound else value


def _csv(keys: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(_LineBuffer())
    yield writer.writerow(keys)
    for row in rows:
        yield writer.writerow(map(_cell, row.values()))


def _json(_keys: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield "["
    for at, row in enumerate(rows):
        yield f"{',' if at else ''}\n{json.dumps(row, ensure_ascii=False)}"
    yield "\n]\n"


def _json_lines(_keys: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"{json.dumps(row, ensure_ascii=False)}\n"


_Write = Callable[[Sequence[str], Iterable[dict[str, Any]]], Iterator[str]]
_FORMATS: dict[str, tuple[str, _Write]] = {
    "csv": ("text/csv", _csv),
    "json": ("application/json", _json),
    "jsonl": ("application/x-ndjson", _json_lines),
}


def value_of(row: Model | dict[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _cell(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula."""
    if isinstance(value, str) and value.startswith(tuple(_MARKS)):
        return f"'{value}"
    return value


def whole_file(
    request: HttpRequest, context: dict[str, Any], spec: ListSpec, name: str, rows: str = ""
) -> StreamingHttpResponse | None:
    """A list of the page's context as a file, if the address asks for one; else None."""
    if not is_file(request):
        return None
    found = value_of(context, spec.rows or rows) or ()
    return download(request.GET["as"], spec, found, name)


def is_file(request: HttpRequest) -> bool:
    """Whether the address asks for a file instead of the page."""
    return request.GET.get("as") in _FORMATS and request.method != "POST"


def file_of(
    request: HttpRequest, context: dict[str, Any], lists: Mapping[str, ListSpec], page: str = ""
) -> StreamingHttpResponse | None:
    """The download of the list that `?of=` names; by default of the page's first list.

    The rows are in the context, under the list's `rows` or the name here. `page` is the prefix
    of the file name.
    """
    of = request.GET.get("of", "")
    name = of if of in lists else next(iter(lists))
    return whole_file(request, context, lists[name], f"{page}-{name}" if page else name, name)


# Fewer healthy rows are not folded.
_FOLD_FROM = 4


def fold(rows: Iterable[Any], is_healthy: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    """Rows that need a look, and the healthy rows that a page folds below them.

    Without the former, or with few of the latter, nothing is folded.
    """
    found = list(rows)
    healthy = [row for row in found if is_healthy(row)]
    others = [row for row in found if not is_healthy(row)]
    return (others, healthy) if others and len(healthy) >= _FOLD_FROM else (found, [])


def first(context: dict[str, Any], count: int, *names: str) -> None:
    """Limit rows of a page. Call it after `file_of`, since a download has all rows."""
    for name in names:
        context[name] = context[name][:count]
