"""Tables of a flow's page that are not rows of the database, as CSV and JSON files."""

from __future__ import annotations

import dataclasses
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
        if kind not in {"csv", "json"}:
            return None
        columns = [Column(path, path) for path in self.columns]
        return download(kind, columns, value_of(context, self.rows) or (), name)


SHEETS = {
    "heartbeats": Sheet(
        "directions",
        (
            "flow.name",
            "state",
            "age_ms",
            "every",
            "heartbeat.latency_ms",
            "heartbeat.clock_skew_ms",
            "place",
            "heartbeat.written_at",
            "heartbeat.as_of",
            "heartbeat.error",
        ),
    ),
    "duties": Sheet(
        "standings",
        (
            "schedule.name",
            "state",
            "last.started_at",
            "next_at",
            "interval_seconds",
            "last.counts",
            "last.error",
            "judgement.reason",
        ),
    ),
    "plan": Sheet("plan.changes", ("kind", "name", "before", "after", "reason")),
    "configuration": Sheet("settings", ("key", "value", "given", "meaning")),
}
