"""Orphans record by record: records that only the old primary has. The page and the download.

The content of records needs the role operator; viewers see counts and offsets.
"""

from __future__ import annotations

import json
import types
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.failback import ORPHAN_RECORDS
from mirrors.models import OrphanStretch, needs
from mirrors.services.failback import orphans
from mirrors.views.page import curl, render_page
from mirrors.views.tables import download

SHOWN_RECORDS = 50


@require_safe
@needs(Right.OPERATE)
def show_orphans(request: HttpRequest, pk: int, stretch: int) -> HttpResponseBase:
    rows = OrphanStretch.objects.select_related("failback__flow__source", "failback__flow__target")
    row = get_object_or_404(rows, pk=stretch, failback=pk)
    if (kind := request.GET.get("as")) in {"csv", "jsonl"}:
        return _export(row, str(kind))
    given = request.GET.get("from", "0")
    start = int(given) if given.isdecimal() and len(given) < 13 else 0
    found = [
        {**record, "shown_key": _text(record, "key"), "shown_value": _text(record, "value")}
        for record in orphans.read_records(stretch=row, start=start, count=SHOWN_RECORDS)
    ]
    address = f"failbacks/{pk}/orphans/{row.pk}/records/"
    context = {
        "row": row,
        "run": row.failback,
        "title": f"Orphans of {row}",
        "records": found,
        "start": start,
        "end": start + len(found),
        "before": max(0, start - SHOWN_RECORDS) if start else None,
        "after": start + len(found) if start + len(found) < row.kept else None,
        "commands": [curl(request, "Read them", "GET", address)],
    }
    return render_page(request, "mirrors/failback/orphans.html", context, section="failovers")


def _export(row: OrphanStretch, kind: str) -> StreamingHttpResponse:
    """JSON lines keep every byte; CSV has text, escaped for spreadsheets."""
    records = orphans.read_records(stretch=row)
    name = f"orphans-{row.topic}-{row.partition}"
    if kind == "csv":
        return download("csv", ORPHAN_RECORDS, map(_flat, records), name)
    return StreamingHttpResponse(
        (f"{json.dumps(each)}\n" for each in records),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )


def _flat(record: dict[str, Any]) -> types.SimpleNamespace:
    names = (column.key for column in ORPHAN_RECORDS.file_columns)
    cells = {name: _text(record, name) for name in names}
    return types.SimpleNamespace(**{**cells, "headers": json.dumps(record["headers"])})


def _text(record: dict[str, Any], name: str) -> Any:
    """Text, or base64 where the bytes are not UTF-8."""
    return record.get(name, record.get(f"{name}_base64"))
