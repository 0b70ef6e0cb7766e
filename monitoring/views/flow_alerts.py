"""The alerts tab of a flow: firing and resolved alerts, and the rules that apply."""

from __future__ import annotations

import dataclasses

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.models import Role, needs
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import Sheet, file_of
from monitoring.alerts import links
from monitoring.models import Alert, AlertRule, AlertState, Severity
from monitoring.views.alerts import QUESTION as ALL_ALERTS

QUESTION = dataclasses.replace(
    ALL_ALERTS,
    columns=tuple(column for column in ALL_ALERTS.columns if column.key != "subject_name"),
)
RULES = Sheet("rules", ("name", "asks", "threshold", "unit", "for_seconds", "severity", "enabled"))
_TONES = {"critical": "critical", "warning": "attention", "info": "unknown"}


@require_safe
@needs(Role.VIEWER)
def show_flow_alerts(request: HttpRequest, pk: int) -> HttpResponseBase:
    context = flow_context(request, pk, "alerts")
    flow = context["flow"]
    rows = Alert.objects.filter(flow=flow).select_related("rule").exclude(state=AlertState.PENDING)
    name = f"{flow.source.alias}-{flow.target.alias}-alerts"
    if download := QUESTION.export(request, rows, name):
        return download
    table = QUESTION.table(request, rows)
    for alert in table.page:
        alert.tone = "good" if alert.state == "resolved" else _TONES[alert.severity]
        alert.runbook = links.runbook_of(alert)
    rules = AlertRule.objects.filter(Q(flow=flow) | Q(flow=None)).order_by("name")
    context |= {
        "tab_template": "monitoring/alerts/_flow_tab.html",
        "table": table,
        "filters": [
            filter_of("state", "State", QUESTION.filters["state"], table.chosen),
            filter_of("severity", "Severity", Severity.values, table.chosen),
        ],
        "rules": rules,
        "commands": [curl(request, "List firing alerts", "GET", "alerts/?state=firing")],
    }
    if file := file_of(
        request, context, {"rules": RULES}, f"{flow.source.alias}-{flow.target.alias}"
    ):
        return file
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=5)
