"""The page of what waits for a second person: failovers, and requests to drop a flow's rule."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.approvals import WAITING_RUNS, WAIVERS
from mirrors.models import FailoverRun, Flow, RuleWaiver, needs
from mirrors.models.access.grants import demand_here, seen
from mirrors.models.failover import FailoverState, WaitsFor
from mirrors.services.access import approvals
from mirrors.views.page import attempt, render_page
from mirrors.views.tables import file_of


@require_safe
@needs(Right.VIEW)
def show_approvals(request: HttpRequest) -> HttpResponseBase:
    runs = FailoverRun.objects.filter(state=FailoverState.WAITING, waits_for=WaitsFor.APPROVAL)
    context = {
        "runs": runs.select_related("flow__source", "flow__target"),
        "waivers": approvals.open_waivers(),
        "ruled": approvals.flows_with_own_rule(),
    }
    lists = {"runs": WAITING_RUNS, "waivers": WAIVERS}
    if file := file_of(request, context, lists, "approvals"):
        return file
    return render_page(
        request, "mirrors/approvals/list.html", context, section="approvals", every=5
    )


@require_POST
@needs(Right.ADMINISTER)
def request_waiver(request: HttpRequest) -> HttpResponse:
    flow = get_object_or_404(
        seen(Flow.objects.select_related("source", "target")),
        pk=request.POST.get("flow", "0")[:18],
    )
    demand_here(flow)
    why, who = request.POST.get("reason", "").replace("\x00", ""), request.user.get_username()
    attempt(request, lambda: approvals.request_waiver(flow=flow, who=who, why=why))
    return redirect("approvals")


@require_POST
@needs(Right.APPROVE)
def decide_waiver(request: HttpRequest, pk: int, decision: str) -> HttpResponse:
    row, who = get_object_or_404(RuleWaiver, pk=pk), request.user.get_username()
    approved = decision == "approve"
    attempt(
        request,
        lambda: approvals.decide_waiver(waiver=row, approved=approved, who=who),
        "Recorded.",
    )
    return redirect("approvals")
