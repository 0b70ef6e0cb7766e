"""The alerts tab of a flow: firing and resolved alerts, and the rules that apply."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.models import needs
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, file_of, table_of
from monitoring.alerts import links
from monitoring.lists import ALERTS_OF_FLOW, RULES_OF_FLOW
from monitoring.models import Alert, AlertRule, AlertState, Severity

_TONES = {"critical": "critical", "warning": "attention", "info": "unknown"}


@require_safe
@needs(Right.VIEW)
def show_flow_alerts(request: HttpRequest, pk: int) -> HttpResponseBase:
    context = flow_context(request, pk, "alerts")
    flow = context["flow"]
    rows = Alert.objects.filter(flow=flow).select_related("rule").exclude(state=AlertState.PENDING)
    name = f"{flow.source.alias}-{flow.target.alias}-alerts"
    if download := export(request, ALERTS_OF_FLOW, rows, name):
        return download
    table = table_of(request, ALERTS_OF_FLOW, rows)
    for alert in table.page:
        alert.tone = "good" if alert.state == "resolved" else _TONES[alert.severity]
        alert.runbook = links.runbook_of(alert)
    rules = AlertRule.objects.filter(Q(flow=flow) | Q(flow=None)).order_by("name")
    context |= {
        "tab_template": "monitoring/alerts/_flow_tab.html",
        "table": table,
        "filters": [
            filter_of("state", "State", ALERTS_OF_FLOW.filters["state"], table.chosen),
            filter_of("severity", "Severity", Severity.values, table.chosen),
        ],
        "rules": rules,
        "commands": [curl(request, "List firing alerts", "GET", "alerts/?state=firing")],
    }
    if file := file_of(
        request, context, {"rules": RULES_OF_FLOW}, f"{flow.source.alias}-{flow.target.alias}"
    ):
        return file
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=5)
