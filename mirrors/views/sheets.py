"""Tables of a page that are not one question to the database, as CSV and JSON files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse

from mirrors.views.tables import Column, download, value_of


@dataclasses.dataclass(frozen=True)
class Sheet:
    """`rows` is where a tab's context has them; `columns` are the paths of their values."""

    rows: str
    columns: tuple[str, ...]

    def file(
        self, request: HttpRequest, context: dict[str, Any], name: str
    ) -> StreamingHttpResponse | None:
        """The whole table when the address asks for it (`?as=csv`, `?as=json`), else None."""
        if not is_file(request):
            return None
        columns = [Column(path, path) for path in self.columns]
        return download(request.GET["as"], columns, value_of(context, self.rows) or (), name)


# What changed lately, as several pages show it.
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
    """Of a page with several tables the one that `?of=` names, by default the first.

    `page` begins the name of the file.
    """
    of = request.GET.get("of", "")
    name = of if of in sheets else next(iter(sheets))
    return sheets[name].file(request, context, f"{page}-{name}" if page else name)


def first(context: dict[str, Any], count: int, *names: str) -> None:
    """Cut what a page shows, once it is clear that no file of the whole is asked for."""
    for name in names:
        context[name] = context[name][:count]
