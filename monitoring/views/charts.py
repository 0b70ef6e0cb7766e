"""The charts of a flow over a time range, and a table of the same samples."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.models import Flow, FlowObjectives, needs
from mirrors.models.flow_queries import worst_topics
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import render_page
from mirrors.views.tables import file_of
from monitoring.domain.alerts.rules import rules_of
from monitoring.domain.history import Sample, downsample
from monitoring.domain.line_chart import line_chart
from monitoring.history import charts, topic_series
from monitoring.history import samples as history
from monitoring.history.samples import Range
from monitoring.lists import SAMPLES, WORST_TOPICS
from monitoring.models import AlertRule

# Rows of the table behind the charts.
_ROWS = 12
# Topics furthest behind that are listed.
_TOPICS = 5
_LISTS = {"samples": SAMPLES, "topics": WORST_TOPICS}
# The objective that each chart draws.
_OBJECTIVES = {"rpo": "rpo_seconds", "lag": "rpo_records"}
# The kind of rule whose threshold each chart draws.
_RULE_KINDS = {"rpo": "time_lag", "lag": "offset_lag", "heartbeat": "heartbeat"}


@require_safe
@needs(Right.VIEW)
def show_charts(request: HttpRequest, pk: int) -> HttpResponseBase:
    over = _range(request)
    now = timezone.now()
    context = flow_context(request, pk, "charts")
    flow = context["flow"]
    samples = history.samples(flow=flow, over=over, now=now)
    name = f"{flow.source.alias}-{flow.target.alias}-history-{over.name}"
    worst = worst_topics(_TOPICS, flow.pk)
    # A file has every sample of the range; the page shows a dozen.
    if file := file_of(request, {"samples": samples, "worst": worst}, _LISTS, name):
        return file
    step = timedelta(seconds=over.span.total_seconds() / _ROWS)
    context |= {
        "tab_template": "monitoring/charts/_ranges.html",
        "ranges": history.RANGES.values(),
        "over": over,
        "rows": list(reversed(downsample(samples, step))),
        "figures": [
            _figure_context(flow, name, over, samples, (now - over.span, now))
            for name in charts.CHARTS
        ],
        "topics": _topics_chart(flow, over, now),
        "worst": worst,
    }
    return render_page(
        request, "monitoring/charts/flow_tab.html", context, section="flows", every=5
    )


@require_safe
@needs(Right.VIEW)
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


def _topics_chart(flow: Any, over: Range, now: datetime) -> dict[str, Any] | None:
    """RPO of the topics that were furthest behind, drawn by the server; None without samples.

    Topics are kept for a month in hours, so the longest range is a week.
    """
    kept = topic_series.TOPIC_RANGES.get(over.name) or topic_series.TOPIC_RANGES["7d"]
    found = topic_series.worst_topics_over(flow=flow, over=kept, now=now, limit=_TOPICS)
    names = list(found)
    drawn = line_chart(dict(enumerate(found.values())))
    if drawn is None:
        return None
    start = kept.start(now)
    return {
        "over": kept,
        "start": start,
        "levels": [drawn.top, drawn.top / 2, 0],
        "lines": [(names[line.key or 0], line.key, line) for line in drawn.lines],
        "ends": (start, now),
    }


def _figure_context(
    flow: Any, name: str, over: Range, samples: list[Sample], span: tuple[datetime, datetime]
) -> dict[str, Any]:
    """A chart before the script draws it: its line, its newest and its highest value."""
    return {
        "name": name,
        "title": charts.CHARTS[name].title,
        "link": f"{reverse('flow-figure', args=[flow.pk, name])}?range={over.name}",
        "line": charts.first_frame(name, samples, span, over.draw),
        **charts.summary(name, samples),
    }
