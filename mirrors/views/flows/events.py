"""The tab Events of a flow: its changes of state, its jobs and failovers, and what people did."""

from __future__ import annotations

import dataclasses

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.audit import EVENTS_OF_FLOW
from mirrors.models import needs
from mirrors.models.audit.transitions import by_people, events_of
from mirrors.views.audit import TimeSpan, without_address
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
    span = TimeSpan.of(request)
    rows = span.within(events_of(flow))
    is_by_people = request.GET.get("by") == "people"
    if is_by_people:
        rows = by_people(rows)
    name = f"{flow.source.alias}-{flow.target.alias}-events"
    if download := export(
        request, EVENTS_OF_FLOW, rows, name, lambda row: without_address(row, request.user)
    ):
        return download
    table = table_of(request, EVENTS_OF_FLOW, rows)
    is_limited = is_by_people or bool(span)
    context |= {
        "table": dataclasses.replace(table, filtered=table.filtered or is_limited),
        "filters": [
            filter_of(field, _LABELS[field], values, table.chosen)
            for field, values in EVENTS_OF_FLOW.filters.items()
        ],
        "event_span": span.fields,
        "authors": [("", "By anybody"), ("people", "By people")],
        "by": "people" if is_by_people else "",
        "tab_template": "mirrors/flows/tabs/events.html",
    }
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=2)


@require_safe
@needs(Right.VIEW)
def moved_here(request: HttpRequest, pk: int, part: str) -> HttpResponse:
    """The former tabs Transitions and Audit, with their filters."""
    query = request.GET.copy()
    if part == "audit":
        query["by"] = "people"
    text = query.urlencode()
    return redirect(f"{reverse('flow-events', args=[pk])}{'?' if text else ''}{text}")
