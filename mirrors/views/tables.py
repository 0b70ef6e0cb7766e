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

PAGE_SIZE = 50
_MARKS = "=+-@\t\r"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column. `key` is the attribute path of its value, `sort` the fields to order by."""

    key: str
    label: str
    sort: tuple[str, ...] = ()
    number: bool = False
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Heading:
    """A column's heading on the page: the link of a click, and the sort direction."""

    column: Column
    link: str
    direction: str


@dataclasses.dataclass(frozen=True)
class Table:
    """What a template shows: headings, one page of rows, search and filters."""

    headings: list[Heading]
    page: Page[Any]
    search: str
    filtered: bool
    chosen: dict[str, str]

    @property
    def total(self) -> int:
        return self.page.paginator.count


@dataclasses.dataclass(frozen=True)
class Question:
    """A list: its columns, and how it may be searched, filtered and sorted."""

    columns: Sequence[Column]
    search: Sequence[str]
    default: str
    filters: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # Order of rows that are equal in the sorted column.
    tie: tuple[str, ...] = ("pk",)

    def table(self, request: HttpRequest, rows: QuerySet[Any]) -> Table:
        """The table of a request. Invalid parameters are ignored, so that any link shows rows."""
        search = clean(request.GET.get("q", ""))
        chosen = self._chosen(request)
        found = self._sorted(request, self._searched(rows, search).filter(**chosen))
        return self._table(request, found, search, chosen)

    def is_by_default(self, request: HttpRequest) -> bool:
        """Whether the table is sorted by its default column."""
        return self._sort(request)[0].key == self.default

    def of_names(
        self, request: HttpRequest, names: Iterable[str], rows: Callable[[list[str]], Iterable[Any]]
    ) -> Table:
        """The table of expensive rows: `rows` is called only with the names on one page.

        `names` and `rows` are in the order of the default column.
        """
        _, down = self._sort(request)
        search = clean(request.GET.get("q", ""))
        found = [name for name in names if search.casefold() in name.casefold()]
        table = self._table(request, found[::-1] if down else found, search, {})
        made = list(rows(list(table.page)))
        table.page.object_list = made[::-1] if down else made
        return table

    def _table(
        self, request: HttpRequest, found: Any, search: str, chosen: dict[str, str]
    ) -> Table:
        return Table(
            headings=[self._heading(request, column) for column in self.columns],
            page=Paginator(found, PAGE_SIZE).get_page(request.GET.get("page")),
            search=search,
            filtered=bool(search or chosen),
            chosen=chosen,
        )

    def export(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        name: str,
        mark: Callable[[Any], Any] = lambda row: row,
    ) -> StreamingHttpResponse | None:
        """The whole list as CSV or JSON if the address asks for it (`?as=csv`), else None.

        `?of=` asks for another table of the same page.
        """
        kind = request.GET.get("as")
        if kind not in {"csv", "json"} or request.GET.get("of"):
            return None
        rows = self._searched(rows, clean(request.GET.get("q", "")))
        rows = self._sorted(request, rows.filter(**self._chosen(request)))
        return download(kind, self.columns, map(mark, rows.iterator(chunk_size=1000)), name)

    def _chosen(self, request: HttpRequest) -> dict[str, str]:
        return {
            field: value
            for field, allowed in self.filters.items()
            if (value := request.GET.get(field, "")) in allowed
        }

    def _searched(self, rows: QuerySet[Any], search: str) -> QuerySet[Any]:
        if not search:
            return rows
        texts = [Q(**{f"{field}__icontains": search}) for field in self.search]
        return rows.filter(reduce(or_, texts))

    def _sort(self, request: HttpRequest) -> tuple[Column, bool]:
        given = request.GET.get("sort", self.default)
        known = {column.key: column for column in self.columns if column.sort}
        if given.removeprefix("-") not in known:
            given = self.default
        return known[given.removeprefix("-")], given.startswith("-")

    def _sorted(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        column, down = self._sort(request)
        # Unknown values come last in both directions.
        order: list[OrderBy] = [
            F(field).desc(nulls_last=True) if down else F(field).asc(nulls_last=True)
            for field in column.sort
        ]
        return rows.order_by(*order, *self.tie)

    def _heading(self, request: HttpRequest, column: Column) -> Heading:
        if not column.sort:
            return Heading(column, "", "")
        current, down = self._sort(request)
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


def download(
    kind: str, columns: Sequence[Column], rows: Iterable[Any], name: str
) -> StreamingHttpResponse:
    """Rows as a streamed CSV or JSON file."""
    lines = _csv(columns, rows) if kind == "csv" else _json(columns, rows)
    mime = "text/csv" if kind == "csv" else "application/json"
    return StreamingHttpResponse(
        lines,
        content_type=f"{mime}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.{kind}"'},
    )


class _Echo:
    """A file for csv.writer whose `write` returns the line."""

    def write(self, line: str) -> str:
        return line


def _csv(columns: Sequence[Column], rows: Iterable[Any]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow([column.key for column in columns])
    for row in rows:
        yield writer.writerow([_cell(value_of(row, column.key)) for column in columns])


def _json(columns: Sequence[Column], rows: Iterable[Any]) -> Iterator[str]:
    yield "["
    for at, row in enumerate(rows):
        facts = {column.key: _plain(value_of(row, column.key)) for column in columns}
        yield f"{',' if at else ''}\n{json.dumps(facts, ensure_ascii=False)}"
    yield "\n]\n"


def value_of(row: Model | dict[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _cell(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula."""
    value = _plain(value)
    if isinstance(value, str) and value.startswith(tuple(_MARKS)):
        return f"'{value}"
    return value


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A download from a page's context: `rows` is the path of its rows, `columns` the values'."""

    rows: str
    columns: tuple[str, ...]

    def file(
        self, request: HttpRequest, context: dict[str, Any], name: str
    ) -> StreamingHttpResponse | None:
        """The whole table if the address asks for it (`?as=csv`, `?as=json`), else None."""
        if not is_file(request):
            return None
        columns = [Column(path, path) for path in self.columns]
        return download(request.GET["as"], columns, value_of(context, self.rows) or (), name)


# Recent transitions, on several pages.
CHANGES = Sheet(
    "transitions",
    ("when", "subject", "name", "field", "from_state", "to_state", "who", "why"),
)


def is_file(request: HttpRequest) -> bool:
    """Whether the address asks for a file instead of the page."""
    return request.GET.get("as") in {"csv", "json"} and request.method != "POST"


def file_of(
    request: HttpRequest, context: dict[str, Any], sheets: Mapping[str, Sheet], page: str = ""
) -> StreamingHttpResponse | None:
    """The download of the table that `?of=` names; by default of the page's first table.

    `page` is the prefix of the file name.
    """
    of = request.GET.get("of", "")
    name = of if of in sheets else next(iter(sheets))
    return sheets[name].file(request, context, f"{page}-{name}" if page else name)


def first(context: dict[str, Any], count: int, *names: str) -> None:
    """Limit rows of a page. Call it after `file_of`, since a download has all rows."""
    for name in names:
        context[name] = context[name][:count]
