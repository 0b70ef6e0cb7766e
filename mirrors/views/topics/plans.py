"""Actions on a plan: refresh it, apply exactly it, let ACLs be synchronized."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from mirrors import tasks
from mirrors.domain.errors import UnderstudyError
from mirrors.models import Flow, FlowPlan, FlowTopic, Role, needs
from mirrors.services.topics import acl_previews, plans


def plan_part(flow: Flow) -> dict[str, Any]:
    """What the tab shows."""
    plan = FlowPlan.objects.filter(flow=flow).first()
    return {
        "plan": plan,
        "acls_wait": acl_previews.waits_of(flow),
        "overtaken": _overtaken(plan) if plan else 0,
    }


def _overtaken(plan: FlowPlan) -> int:
    """Topics that were missing when the plan was made, and that the flow has made since."""
    copied = FlowTopic.objects.filter(
        flow=plan.flow_id, state__in=("in_sync", "syncing", "lagging")
    )
    made = set(copied.values_list("remote_topic", flat=True))
    return sum(one["kind"] == "create topic" and one["name"] in made for one in plan.changes)


@require_POST
@needs(Role.OPERATOR)
def look_at_plan(request: HttpRequest, pk: int) -> HttpResponse:
    flow = _flow(pk)
    plans.ask_look(flow=flow, now=timezone.now())
    tasks.look_at_plan.delay_on_commit(flow.pk)
    messages.success(request, "A worker looks at both clusters; the plan below renews itself.")
    return redirect("flow-part", pk=pk, part="plan")


@require_POST
@needs(Role.OPERATOR)
def apply_plan(request: HttpRequest, pk: int) -> HttpResponse:
    flow = _flow(pk)
    digest, who = request.POST.get("digest", "")[:64], request.user.get_username()
    try:
        plans.ask_apply(flow=flow, digest=digest, who=who, now=timezone.now())
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        tasks.apply_plan.delay_on_commit(flow.pk)
        messages.success(request, "The plan is being applied; its outcome will stand below.")
    return redirect("flow-part", pk=pk, part="plan")


@require_POST
@needs(Role.OPERATOR)
def let_acls_follow(request: HttpRequest, pk: int) -> HttpResponse:
    """Somebody has read which access rules the flow would make: its duty may begin."""
    flow = _flow(pk)
    digest, who = request.POST.get("digest", "")[:64], request.user.get_username()
    try:
        acl_previews.let_follow(flow=flow, digest=digest, who=who, now=timezone.now())
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "Access rules follow from now on, at the turns of their duty.")
    return redirect("flow-part", pk=pk, part="plan")


def _flow(pk: int) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
