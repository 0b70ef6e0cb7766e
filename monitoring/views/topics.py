"""The page of one topic of a flow: state, history, groups that read it, findings."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from mirrors.domain import formatting
from mirrors.domain.access.rights import Right
from mirrors.domain.flows.latency import Latency
from mirrors.lists.flows import PARTITIONS
from mirrors.models import (
    Drift,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    TopicConfigs,
    needs,
)
from mirrors.models.groups.offsets import GroupOffset
from mirrors.models.groups.summaries import finish_summaries, group_summaries
from mirrors.services.comparison.verified import verified_sentence, with_verified
from mirrors.services.topics import readings
from mirrors.views.flows.rules import rule_of_topic
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import export, file_of, table_of
from monitoring.domain.costs import cost_of, money
from monitoring.domain.line_chart import Line, LineChart, line_chart
from monitoring.forecasts import usage
from monitoring.history import topic_series
from monitoring.history.topic_series import Figure, TopicSeries
from monitoring.lists import TOPIC_CHANGES, TOPIC_CONFIGS, TOPIC_GAPS, TOPIC_GROUPS

# Groups and findings that the page lists; more are one click away.
_MOST = 50
_WHOLE_TOPIC = -1
_MARKS = 5
_LISTS = {
    "groups": TOPIC_GROUPS,
    "gaps": TOPIC_GAPS,
    "changes": TOPIC_CHANGES,
    "configs": TOPIC_CONFIGS,
}


@dataclasses.dataclass(frozen=True)
class TopicChart:
    """One chart: the topic, and its partitions that are furthest behind."""

    name: Figure
    title: str
    unit: str
    drawn: LineChart
    # Label, number of the color, line.
    lines: list[tuple[str, int, Line]]
    levels: list[str]
    marks: list[datetime]
    # Of the last step of the range, not of this moment.
    latest: str
    peak: str
    total: str


@require_POST
@needs(Right.OPERATE)
def read_configs(request: HttpRequest, pk: int, topic: str) -> HttpResponse:
    """Request a reading of the configs on both clusters."""
    row = get_object_or_404(FlowTopic.objects.select_related("flow"), flow=pk, topic=topic)
    who = request.user.get_username()
    attempt(request, lambda: readings.request_configs(row=row, who=who))
    return redirect(f"{reverse('flow-topic', args=[pk, topic])}#configs-title")


@require_safe
@needs(Right.VIEW)
def show_topic(request: HttpRequest, pk: int, topic: str) -> HttpResponseBase:
    """The name is that of the source topic; that of its remote topic leads here too."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    row = FlowTopic.objects.filter(flow=flow, topic=topic).first()
    if row is None:
        return _elsewhere(flow, topic)
    partitions = with_verified(FlowPartition.objects.filter(flow=flow, topic=topic))
    name = f"{flow.source.alias}-{flow.target.alias}-{topic}"
    of_topic = request.GET.get("of", "") in _LISTS
    if not of_topic and (download := export(request, PARTITIONS, partitions, name)):
        return download
    over = topic_series.TOPIC_RANGES.get(request.GET.get("range", ""), topic_series.DEFAULT)
    series = topic_series.read_series(flow=flow, topic=topic, over=over, now=timezone.now())
    reading = GroupOffset.objects.filter(flow=flow, topic=topic).values("group")
    groups = group_summaries().filter(flow=flow.pk, group__in=reading).order_by("group")
    configs = TopicConfigs.objects.filter(flow=flow, topic=topic).first()
    config_state = configs.state_at(timezone.now()) if configs else ""
    context = {
        "flow": flow,
        "topic": row,
        **rule_of_topic(flow, row),
        "verified": verified_sentence(flow, topic),
        "month": _month(flow, topic),
        "latency": Latency(*row.latency) if row.latency else None,
        "configs": configs,
        "config_state": config_state,
        **_config_rows(configs),
        "over": over,
        "ranges": topic_series.TOPIC_RANGES.values(),
        "charts": charts_of(series),
        "groups": finish_summaries(groups[:_MOST]),
        "gaps": Gap.objects.filter(flow=flow, topic=topic).order_by("-id")[:_MOST],
        "drift": Drift.objects.filter(
            flow=flow, name__in=[topic, row.remote_topic or topic], closed_at=None
        )[:_MOST],
        "table": table_of(request, PARTITIONS, partitions),
        "commands": [
            curl(request, "This topic", "GET", f"flows/{pk}/topics/{topic}/"),
            curl(request, "Read its configs", "POST", f"flows/{pk}/topics/{topic}/configs/"),
            curl(request, "Its history", "GET", f"flows/{pk}/topic-samples/?topic={topic}"),
        ],
    }
    if of_topic and (download := file_of(request, context, _LISTS, name)):
        return download
    every = 1 if config_state == "requested" else 5
    return render_page(
        request, "monitoring/topics/detail.html", context, section="flows", every=every
    )


def _month(flow: Flow, topic: str) -> dict[str, Any]:
    """What the topic sent this month, and its cost; empty without a price."""
    used = usage.topic_usage(flow, topic, timezone.now())
    price = usage.price_of(flow)
    cost = money(cost_of(used, price), price.currency) if price else ""
    return {"bytes": used, "cost": cost}


def _config_rows(reading: TopicConfigs | None) -> dict[str, Any]:
    """Differences first; equal configs that neither topic sets are folded below them."""
    rows = [] if reading is None else reading.rows
    shown = [row for row in rows if row["verdict"] != "same" or row["source_set"]]
    return {
        "config_rows": rows,
        "config_shown": shown,
        "config_folded": [row for row in rows if row not in shown],
    }


def _elsewhere(flow: Flow, topic: str) -> HttpResponseBase:
    """To the source topic of this remote topic, or to the page that explains a missing one."""
    source = FlowTopic.objects.filter(flow=flow, remote_topic=topic).first()
    if source is not None:
        return redirect("flow-topic", flow.pk, source.topic)
    return redirect(f"{reverse('flow-explain', args=[flow.pk])}?{urlencode({'topic': topic})}")


def charts_of(series: TopicSeries) -> list[TopicChart]:
    """The charts that have a known value."""
    minutes = round(series.over.step.total_seconds() / 60)
    step = "minute" if minutes == 1 else "hour" if minutes == 60 else f"{minutes} minutes"
    found = (
        _chart(series, "time_lag_ms", "RPO", "ms"),
        _chart(series, "owed", "Records not replicated", "records"),
        _chart(series, "records", f"Records replicated per {step}", "records"),
        _chart(series, "bytes", f"Bytes replicated per {step}", "bytes"),
    )
    return [chart for chart in found if chart is not None]


def _chart(series: TopicSeries, name: Figure, title: str, unit: str) -> TopicChart | None:
    values = series.topic[name]
    parts = {number: of[name] for number, of in series.partitions.items() if name in of}
    known = [value for value in values if value is not None]
    top = None if unit == "ms" else _round_top(max([*known, 1.0]))
    # A topic of one partition is its own line.
    drawn = line_chart({_WHOLE_TOPIC: values, **(parts if len(parts) > 1 else {})}, top=top)
    if drawn is None:
        return None
    over = series.over
    return TopicChart(
        name=name,
        title=title,
        unit=unit,
        drawn=drawn,
        lines=[(*_label(line.key), line) for line in drawn.lines],
        levels=[text_of(value, unit) for value in (drawn.top, drawn.top / 2, 0)],
        marks=[series.start + over.span * at / (_MARKS - 1) for at in range(_MARKS)],
        latest=text_of(values[-1], unit),
        peak=text_of(max(known, default=None), unit),
        total=text_of(sum(known), unit) if name in ("records", "bytes") else "",
    )


def _label(key: int | None) -> tuple[str, int]:
    """A partition has the same color in each chart."""
    if key is None:
        return "worst of the others", 0
    return ("topic", 0) if key == _WHOLE_TOPIC else (f"partition {key}", key + 1)


def _round_top(value: float) -> float:
    """The lowest of 2, 4, 10 times a power of ten of at least this value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(top for top in (2 * power, 4 * power, 10 * power, 20 * power) if top >= value)


def text_of(value: float | None, unit: str) -> str:
    """A value of a chart for people."""
    if value is None:
        return "unknown"
    if unit == "ms":
        return formatting.duration(value)
    return formatting.size(value) if unit == "bytes" else f"{value:,.0f}"
