"""Actions on a plan: refresh it, apply it, allow the synchronization of ACLs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.models import Flow, FlowPlan, FlowTopic, needs
from mirrors.services.topics import acl_previews, plans


def plan_part(flow: Flow) -> dict[str, Any]:
    """The context of the tab."""
    plan = FlowPlan.objects.filter(flow=flow).first()
    return {
        "plan": plan,
        "acls_wait": acl_previews.why_flow_waits(flow),
        "overtaken": _overtaken(plan) if plan else 0,
    }


def _overtaken(plan: FlowPlan) -> int:
    """The number of planned topics that the flow has created since."""
    copied = FlowTopic.objects.filter(
        flow=plan.flow_id, state__in=("in_sync", "syncing", "lagging")
    )
    made = set(copied.values_list("remote_topic", flat=True))
    return sum(one["kind"] == "create topic" and one["name"] in made for one in plan.changes)


@require_POST
@needs(Right.OPERATE)
def look_at_plan(request: HttpRequest, pk: int) -> HttpResponse:
    flow = _flow(pk)
    plans.request_plan(flow=flow, now=timezone.now())
    tasks.look_at_plan.delay_on_commit(flow.pk)
    messages.success(request, "A worker reads both clusters; the plan below is refreshed.")
    return redirect("flow-part", pk=pk, part="plan")


@require_POST
@needs(Right.OPERATE)
def apply_plan(request: HttpRequest, pk: int) -> HttpResponse:
    flow = _flow(pk)
    digest, who = request.POST.get("digest", "")[:64], request.user.get_username()
    try:
        plans.request_apply(flow=flow, digest=digest, who=who, now=timezone.now())
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        tasks.apply_plan.delay_on_commit(flow.pk)
        messages.success(request, "The plan is being applied. The outcome appears below.")
    return redirect("flow-part", pk=pk, part="plan")


@require_POST
@needs(Right.OPERATE)
def let_acls_follow(request: HttpRequest, pk: int) -> HttpResponse:
    """Confirm the ACLs that the flow would create: its ACL sync task may begin."""
    flow = _flow(pk)
    digest, who = request.POST.get("digest", "")[:64], request.user.get_username()
    try:
        acl_previews.approve_acls(flow=flow, digest=digest, who=who, now=timezone.now())
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "ACLs are synchronized from now on, by their sync task.")
    return redirect("flow-part", pk=pk, part="plan")


def _flow(pk: int) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
