"""The audit page: every change with its author, time and reason."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.audit import AUDIT, SUBJECTS
from mirrors.models import Flow, SettingChange, Transition, has_right, needs
from mirrors.models.audit.transitions import by_people, visible_to
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, table_of

RECENT = 12


def without_address(row: Transition, user: Any) -> Transition:
    """The addresses of people are for admins and auditors."""
    if not has_right(user, Right.AUDIT):
        row.address = ""
    return row


def setting_changes(flow: Flow) -> QuerySet[SettingChange]:
    return SettingChange.objects.filter(flow=flow)


def recent_changes(flow: Flow) -> dict[str, Any]:
    """For the settings tab: the last changes, and whether there are more."""
    rows = list(setting_changes(flow)[: RECENT + 1])
    return {"changes": rows[:RECENT], "more_changes": len(rows) > RECENT}


@require_safe
@needs(Right.VIEW)
def show_audit(request: HttpRequest) -> HttpResponseBase:
    """Lists changes by people; `?by=everybody` adds those of Understudy's own processes."""
    everybody = request.GET.get("by") == "everybody"
    rows = visible_to(Transition.objects.all(), request.user)
    if not everybody:
        rows = by_people(rows)
    if download := export(
        request, AUDIT, rows, "audit", lambda row: without_address(row, request.user)
    ):
        return download
    table = table_of(request, AUDIT, rows)
    context = {
        "table": table,
        "everybody": everybody,
        "filters": [
            filter_of("subject", "Of", SUBJECTS, table.chosen),
            filter_of("field", "What", AUDIT.filters["field"], table.chosen),
            filter_of("kind", "By", AUDIT.filters["kind"], table.chosen),
            filter_of("result", "Result", AUDIT.filters["result"], table.chosen),
        ],
        "commands": [curl(request, "Read it over REST", "GET", "audit/")],
    }
    return render_page(request, "mirrors/audit/list.html", context, section="audit", every=5)
