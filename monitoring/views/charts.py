"""The charts of a flow: behind, RPO, throughput over a range, and a table that says the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.models import Flow, FlowObjectives, Role, needs
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import render_page
from mirrors.views.tables import Sheet
from monitoring.domain.alerts.rules import rules_of
from monitoring.domain.lag import thin
from monitoring.history import charts
from monitoring.history import samples as history
from monitoring.history.samples import FIELDS, Range
from monitoring.models import AlertRule

# Rows of the table behind the charts.
_ROWS = 12
# Of every step that was kept in the range, while the page shows a dozen.
HISTORY = Sheet("samples", FIELDS)
# The objective that a chart draws.
_AIMS = {"rpo": "rpo_seconds", "lag": "rpo_records"}
# The kind of rule whose threshold a chart draws.
_RULED = {"rpo": "time_lag", "lag": "offset_lag", "heartbeat": "heartbeat"}


@require_safe
@needs(Role.VIEWER)
def show_charts(request: HttpRequest, pk: int) -> HttpResponseBase:
    over = _range(request)
    now = timezone.now()
    context = flow_context(request, pk, "charts")
    flow = context["flow"]
    samples = history.samples(flow=flow, over=over, now=now)
    name = f"{flow.source.alias}-{flow.target.alias}-history-{over.name}"
    if file := HISTORY.file(request, {"samples": samples}, name):
        return file
    step = timedelta(seconds=over.span.total_seconds() / _ROWS)
    context |= {
        "tab_template": "monitoring/charts/_ranges.html",
        "ranges": history.RANGES.values(),
        "over": over,
        "rows": list(reversed(thin(samples, step))),
        "figures": [_place(flow, name, over) for name in charts.CHARTS],
    }
    return render_page(
        request, "monitoring/charts/flow_tab.html", context, section="flows", every=5
    )


@require_safe
@needs(Role.VIEWER)
def figure(request: HttpRequest, pk: int, chart: str) -> HttpResponse:
    """One chart as the JSON that Plotly draws."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    over = _range(request)
    now = timezone.now()
    text = charts.figure(
        chart,
        samples=history.drawn(flow=flow, over=over, now=now),
        events=history.events(flow=flow, over=over, now=now),
        span=(now - over.span, now),
        objective=_objective(flow, chart),
    )
    return HttpResponse(
        text, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _objective(flow: Flow, chart: str) -> float | None:
    """What people want of the flow; else the threshold of its strictest rule."""
    if aim := _AIMS.get(chart):
        wanted = FlowObjectives.objects.filter(flow=flow).values_list(aim, flat=True).first()
        if wanted is not None:
            return float(wanted)
    rules = AlertRule.objects.filter(enabled=True, kind=_RULED.get(chart, ""))
    found = [rule.threshold for rule in rules_of(rules, flow.pk) if rule.threshold is not None]
    return min(found, default=None)


def _range(request: HttpRequest) -> Range:
    return history.RANGES.get(request.GET.get("range", ""), history.DEFAULT)


def _place(flow: Any, name: str, over: Range) -> dict[str, str]:
    link = f"{reverse('flow-figure', args=[flow.pk, name])}?range={over.name}"
    return {"name": name, "title": charts.CHARTS[name].title, "link": link}
