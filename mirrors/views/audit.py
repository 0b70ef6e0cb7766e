"""The audit page: every change with its author, time and reason."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.models import Flow, Role, Transition, needs
from mirrors.models.setting_changes import SettingChange
from mirrors.models.transitions import by_people
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import Column, Question

RECENT = 12
HISTORY = Question(
    columns=(
        Column("when", "When", ("pk",)),
        Column("key", "Key", ("key",)),
        Column("before", "Before"),
        Column("after", "After"),
        Column("who", "Who", ("who",)),
        Column("generation", "Edition", ("generation",), number=True),
    ),
    search=("key", "before", "after", "who"),
    default="-when",
)
AUDIT = Question(
    columns=(
        Column("when", "When", ("pk",)),
        Column("who", "Who", ("who",)),
        Column("subject", "Of", ("subject", "name")),
        Column("name", "Name", ("name",)),
        Column("field", "What", ("field",)),
        Column("from_state", "From"),
        Column("to_state", "To", ("to_state",)),
        Column("why", "Why"),
    ),
    search=("who", "why", "name", "to_state"),
    default="-when",
    filters={"field": ("desired_state", "settings", "state")},
)


def setting_changes(flow: Flow) -> QuerySet[SettingChange]:
    return SettingChange.objects.filter(flow=flow)


def recent_changes(flow: Flow) -> dict[str, Any]:
    """For the settings tab: the last changes, and whether there are more."""
    rows = list(setting_changes(flow)[: RECENT + 1])
    return {"changes": rows[:RECENT], "more_changes": len(rows) > RECENT}


SUBJECTS = ("flow", "cluster", "runner", "failoverrun", "gap", "drill", "comparison")
QUESTION = dataclasses.replace(AUDIT, filters={**AUDIT.filters, "subject": SUBJECTS})


@require_safe
@needs(Role.VIEWER)
def show_audit(request: HttpRequest) -> HttpResponseBase:
    """Lists changes by people; `?by=everybody` adds those of Understudy's own processes."""
    everybody = request.GET.get("by") == "everybody"
    rows = Transition.objects.all() if everybody else by_people(Transition.objects.all())
    if download := QUESTION.export(request, rows, "audit"):
        return download
    table = QUESTION.table(request, rows)
    context = {
        "table": table,
        "everybody": everybody,
        "filters": [
            filter_of("subject", "Of", SUBJECTS, table.chosen),
            filter_of("field", "What", QUESTION.filters["field"], table.chosen),
        ],
        "commands": [curl(request, "Read it over REST", "GET", "audit/")],
    }
    return render_page(request, "mirrors/audit/list.html", context, section="audit", every=5)
