"""Audit: who did what to what, when and why, over everything there is."""

from __future__ import annotations

import dataclasses

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.models import Role, Transition, needs
from mirrors.models.acts import by_people
from mirrors.views.flow_history import AUDIT
from mirrors.views.render import render_page
from mirrors.views.shared import curl, filter_of

SUBJECTS = ("flow", "cluster", "runner", "failoverrun", "gap", "drill", "comparison")
QUESTION = dataclasses.replace(AUDIT, filters={**AUDIT.filters, "subject": SUBJECTS})


@require_safe
@needs(Role.VIEWER)
def show_audit(request: HttpRequest) -> HttpResponseBase:
    """By people; `?by=everybody` adds what our own processes did."""
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
    return render_page(request, "mirrors/audit.html", context, section="audit", every=5)
