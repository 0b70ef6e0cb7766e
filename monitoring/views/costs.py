"""Pages of costs: all flows, one flow with its topics and advice, and its price."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.topics.compression import CompressionSample
from mirrors.models import Flow, needs
from mirrors.models.flow_queries import labelled_flows
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import file_of, first, is_file
from monitoring.domain.costs import MonthCost, cost_of, money
from monitoring.forecasts import compression, usage
from monitoring.forecasts.advice import advice_of
from monitoring.forms import PriceForm
from monitoring.lists import COMPRESSION, COSTS, TOPIC_COSTS
from monitoring.models import CompressionReading, TransferPrice

MOST = 200


@require_safe
@needs(Right.VIEW)
def list_costs(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    columns = ("pk", "source_id", "target_id", "created_at", "label")
    flows = list(labelled_flows().order_by("pk").values_list(*columns, named=True))
    found = usage.costs(flows, now)
    flows.sort(key=lambda flow: (-(found[flow.pk].share or 0), -found[flow.pk].bytes))
    shown = flows if is_file(request) else flows[:MOST]
    whole = next(iter(found.values()), None)
    context: dict[str, Any] = {
        "rows": [row_of(flow.pk, flow.label, found[flow.pk]) for flow in shown],
        "more": len(flows) - len(shown),
        "month": whole.month if whole else now,
        "since": whole.since if whole else None,
        "is_whole": whole is not None and whole.is_whole,
        "commands": [curl(request, "Read the costs", "GET", "costs/")],
    }
    if file := file_of(request, context, {"rows": COSTS}, "costs"):
        return file
    return render_page(request, "monitoring/costs/list.html", context, section="costs")


def row_of(flow: int, name: str, found: MonthCost) -> dict[str, Any]:
    return {
        "flow": flow,
        "name": name,
        "bytes": found.bytes,
        "cost": _plain(found.cost),
        "forecast": _plain(found.forecast),
        "budget": _plain(found.budget),
        "share": found.share,
        "currency": found.currency,
        "cost_text": money(found.cost, found.currency),
        "forecast_text": money(found.forecast, found.currency),
        "budget_text": "" if found.budget is None else money(found.budget, found.currency),
    }


def _plain(amount: Decimal | None) -> float | None:
    """For files; REST has exact decimals."""
    return None if amount is None else round(float(amount), 6)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.ADMINISTER)
def show_cost(request: HttpRequest, pk: int) -> HttpResponseBase:
    """GET shows the month of one flow; POST, by an admin, sets its price and budget."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    row = TransferPrice.objects.filter(source=flow.source, target=flow.target).first()
    form = PriceForm(request.POST or None, price=row)
    if request.method == "POST" and form.is_valid():
        try:
            usage.set_price(flow=flow, who=request.user.get_username(), **form.values())
        except InvalidSettings as error:
            form.refuse(error)
        else:
            messages.success(request, "The price is saved.")
            return redirect("flow-cost", pk=pk)
    return _cost_page(request, flow, form)


@require_POST
@needs(Right.OPERATE)
def measure_compression(request: HttpRequest, pk: int) -> HttpResponse:
    """Request a measurement of the topics that sent the most."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    who = request.user.get_username()
    attempt(request, lambda: compression.request_reading(flow=flow, who=who))
    return redirect(f"{reverse('flow-cost', args=[pk])}#compression-title")


def _cost_page(request: HttpRequest, flow: Flow, form: PriceForm) -> HttpResponseBase:
    now = timezone.now()
    cost = usage.costs([flow], now)[flow.pk]
    used = usage.usage_of(flow, now)
    price = usage.price_of(flow)
    topics = [
        {
            "topic": name,
            "bytes": count,
            "share": count / max(1, sum(used.values())),
            "cost": _plain(cost_of(count, price)),
            "cost_text": money(cost_of(count, price), cost.currency),
        }
        for name, count in sorted(used.items(), key=lambda row: (-row[1], row[0]))
    ]
    reading = CompressionReading.objects.filter(flow=flow).first()
    form.mark_fields()
    path = f"flows/{flow.pk}/cost/"
    body = {"per_gb": "0.02", "currency": "EUR", "monthly_budget": "500"}
    context: dict[str, Any] = {
        "flow": flow,
        "cost": cost,
        "row": row_of(flow.pk, flow.name, cost),
        "topics": topics,
        "topic_count": len(topics),
        "advice": advice_of(flow, cost, used, now),
        "reading": reading,
        "reading_state": reading.state_at(now) if reading else "",
        "samples": _samples(reading),
        "form": form,
        "commands": [
            curl(request, "Read it", "GET", path),
            curl(request, "Set the price", "POST", path, body),
            curl(request, "Measure the compression", "POST", f"{path}compression/"),
        ],
    }
    name = f"costs-{flow.source.alias}-{flow.target.alias}"
    if file := file_of(request, context, {"topics": TOPIC_COSTS, "samples": COMPRESSION}, name):
        return file
    first(context, MOST, "topics")
    return render_page(
        request,
        "monitoring/costs/flow.html",
        context,
        section="costs",
        status=422 if form.errors else 200,
        every=1 if context["reading_state"] == "requested" else None,
    )


def _samples(reading: CompressionReading | None) -> list[dict[str, Any]]:
    """The measured topics, largest possible saving first; savings are shares of the sample."""
    rows = []
    for topic, row in (reading.samples if reading else {}).items():
        sample = CompressionSample(**row)
        saves = {
            f"saves_{name}": max(0.0, 1 - size / sample.bytes)
            for name, size in (
                ("codec", sample.codec_bytes),
                ("batches", sample.batches_bytes),
                ("both", sample.both_bytes),
            )
        }
        rows.append({"topic": topic, **row, "mean": sample.records / sample.batches, **saves})
    return sorted(rows, key=lambda row: (-row["saves_both"], row["topic"]))
