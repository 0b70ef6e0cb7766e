"""The tab Events of a flow: its changes of state, its jobs and failovers, and what people did."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.audit import EVENTS_OF_FLOW
from mirrors.models import Transition, needs
from mirrors.models.audit.transitions import by_people, events_of
from mirrors.views.audit import without_address
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import filter_of, render_page
from mirrors.views.tables import export, table_of

_LABELS = {"subject": "Of", "field": "What", "kind": "By", "result": "Result"}


@require_safe
@needs(Right.VIEW)
def show_events(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`?from=` and `?until=` limit it to a time, `?by=people` to what people did."""
    context = flow_context(request, pk, "events")
    flow = context["flow"]
    span = {name: _moment(request.GET.get(name, "")) for name in ("from", "until")}
    rows = _within(events_of(flow), span)
    is_by_people = request.GET.get("by") == "people"
    if is_by_people:
        rows = by_people(rows)
    name = f"{flow.source.alias}-{flow.target.alias}-events"
    if download := export(
        request, EVENTS_OF_FLOW, rows, name, lambda row: without_address(row, request.user)
    ):
        return download
    table = table_of(request, EVENTS_OF_FLOW, rows)
    is_limited = is_by_people or any(span.values())
    context |= {
        "table": dataclasses.replace(table, filtered=table.filtered or is_limited),
        "filters": [
            filter_of(field, _LABELS[field], values, table.chosen)
            for field, values in EVENTS_OF_FLOW.filters.items()
        ],
        "event_span": [(name, label, _typed(span[name])) for name, label in _SPAN],
        "by": "people" if is_by_people else "",
        "tab_template": "mirrors/flows/tabs/events.html",
    }
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=2)


_SPAN = (("from", "From"), ("until", "Until"))


@require_safe
@needs(Right.VIEW)
def moved_here(request: HttpRequest, pk: int, part: str) -> HttpResponse:
    """The former tabs Transitions and Audit, with their filters."""
    query = request.GET.copy()
    if part == "audit":
        query["by"] = "people"
    text = query.urlencode()
    return redirect(f"{reverse('flow-events', args=[pk])}{'?' if text else ''}{text}")


def _within(rows: QuerySet[Transition], span: dict[str, datetime | None]) -> QuerySet[Transition]:
    if span["from"]:
        rows = rows.filter(when__gte=span["from"])
    return rows.filter(when__lte=span["until"]) if span["until"] else rows


def _moment(text: str) -> datetime | None:
    """A time in UTC, unless it names its zone; None for what is no time."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _typed(moment: datetime | None) -> Any:
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if moment else ""
