"""The charts of a flow over a time range, and a table of the same samples."""

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
from mirrors.views.tables import whole_file
from monitoring.domain.alerts.rules import rules_of
from monitoring.domain.history import downsample
from monitoring.history import charts
from monitoring.history import samples as history
from monitoring.history.samples import Range
from monitoring.lists import SAMPLES
from monitoring.models import AlertRule

# Rows of the table behind the charts.
_ROWS = 12
# The objective that each chart draws.
_OBJECTIVES = {"rpo": "rpo_seconds", "lag": "rpo_records"}
# The kind of rule whose threshold each chart draws.
_RULE_KINDS = {"rpo": "time_lag", "lag": "offset_lag", "heartbeat": "heartbeat"}


@require_safe
@needs(Role.VIEWER)
def show_charts(request: HttpRequest, pk: int) -> HttpResponseBase:
    over = _range(request)
    now = timezone.now()
    context = flow_context(request, pk, "charts")
    flow = context["flow"]
    samples = history.samples(flow=flow, over=over, now=now)
    name = f"{flow.source.alias}-{flow.target.alias}-history-{over.name}"
    # A file has every sample of the range; the page shows a dozen.
    if file := whole_file(request, {"samples": samples}, SAMPLES, name, "samples"):
        return file
    step = timedelta(seconds=over.span.total_seconds() / _ROWS)
    context |= {
        "tab_template": "monitoring/charts/_ranges.html",
        "ranges": history.RANGES.values(),
        "over": over,
        "rows": list(reversed(downsample(samples, step))),
        "figures": [_chart_link(flow, name, over) for name in charts.CHARTS],
    }
    return render_page(
        request, "monitoring/charts/flow_tab.html", context, section="flows", every=5
    )


@require_safe
@needs(Role.VIEWER)
def figure(request: HttpRequest, pk: int, chart: str) -> HttpResponse:
    """One chart as JSON for Plotly."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    over = _range(request)
    now = timezone.now()
    text = charts.figure(
        chart,
        samples=history.samples_with_breaks(flow=flow, over=over, now=now),
        events=history.events(flow=flow, over=over, now=now),
        span=(now - over.span, now),
        objective=_objective(flow, chart),
    )
    return HttpResponse(
        text, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _objective(flow: Flow, chart: str) -> float | None:
    """The objective of the flow; otherwise the threshold of its strictest rule."""
    if field := _OBJECTIVES.get(chart):
        wanted = FlowObjectives.objects.filter(flow=flow).values_list(field, flat=True).first()
        if wanted is not None:
            return float(wanted)
    rules = AlertRule.objects.filter(enabled=True, kind=_RULE_KINDS.get(chart, ""))
    found = [rule.threshold for rule in rules_of(rules, flow.pk) if rule.threshold is not None]
    return min(found, default=None)


def _range(request: HttpRequest) -> Range:
    return history.RANGES.get(request.GET.get("range", ""), history.DEFAULT)


def _chart_link(flow: Any, name: str, over: Range) -> dict[str, str]:
    link = f"{reverse('flow-figure', args=[flow.pk, name])}?range={over.name}"
    return {"name": name, "title": charts.CHARTS[name].title, "link": link}
