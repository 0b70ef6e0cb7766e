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
        kind = request.GET.get("as")
        if kind not in {"csv", "json"} or request.method == "POST":
            return None
        columns = [Column(path, path) for path in self.columns]
        return download(kind, columns, value_of(context, self.rows) or (), name)


def file_of(
    request: HttpRequest, context: dict[str, Any], sheets: Mapping[str, Sheet]
) -> StreamingHttpResponse | None:
    """Of a page with several tables the one that `?of=` names, by default the first."""
    of = request.GET.get("of", "")
    name = of if of in sheets else next(iter(sheets))
    return sheets[name].file(request, context, name)
