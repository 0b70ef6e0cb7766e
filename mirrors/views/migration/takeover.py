"""Take over from MirrorMaker 2: check that it is stopped, then start the flow at its offsets."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.models import Flow, needs
from mirrors.models.flows import DesiredState
from mirrors.services.migration import takeover
from mirrors.views.page import attempt, curl, render_page


@require_safe
@needs(Right.VIEW)
def show_takeover(request: HttpRequest, pk: int) -> HttpResponse:
    flow = _flow(pk)
    run = takeover.last_check(flow=flow)
    looking = run is not None and run.ended_at is None
    context = {
        "flow": flow,
        "run": run,
        "looking": looking,
        "quiet": bool(run and run.counts.get("quiet")),
        "at_rest": flow.desired_state == DesiredState.STOPPED,
        "seconds": takeover.SECONDS,
        "commands": [
            curl(request, "Check and start when stopped", "POST", f"flows/{pk}/takeover/"),
        ],
    }
    return render_page(
        request,
        "mirrors/migration/takeover.html",
        context,
        section="flows",
        every=1 if looking else 5,
    )


@require_POST
@needs(Right.OPERATE)
def check_takeover(request: HttpRequest, pk: int) -> HttpResponse:
    flow, who = _flow(pk), request.user.get_username()
    start = request.POST.get("start") == "yes"
    seconds = takeover.SECONDS
    now = timezone.now()
    attempt(
        request,
        lambda: takeover.request_check(flow=flow, seconds=seconds, start=start, who=who, now=now),
    )
    return redirect("flow-takeover", pk=pk)


def _flow(pk: int) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
