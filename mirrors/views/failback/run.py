"""Pages of a failback: request it, follow it, decide on orphans."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.lists.failback import (
    DIVERGENCE,
    FAILBACK_GROUPS,
    FAILBACKS,
    ORPHANS,
    STARTS,
    SWITCHOVERS,
)
from mirrors.models import (
    Divergence,
    Failback,
    FailoverRun,
    Flow,
    OrphanStretch,
    needs,
)
from mirrors.models.access.grants import demand_here
from mirrors.models.failback import FailbackState, OrphanState
from mirrors.services.failback import lifecycle, orphans, switchover
from mirrors.services.failover.runbook.steps.fence import remaining_fences
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import file_of, first

SHOWN_ROWS = 200
_BUSY = (FailbackState.QUEUED, FailbackState.PREPARING)
CHOICES = {
    "replay": "Replay them: each record is written once to the topic on the new primary, with its "
    "key, value, headers and timestamp, and a header with its origin.",
    "export": "Leave them behind, and keep a copy here for download.",
    "drop": "Leave them behind. They stay on the old primary until its retention deletes them.",
}
FAILBACK_LISTS = {
    "orphans": ORPHANS,
    "groups": FAILBACK_GROUPS,
    "switches": SWITCHOVERS,
    "starts": STARTS,
}
BEGIN_LISTS = {"points": DIVERGENCE, "runs": FAILBACKS}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def begin_failback(request: HttpRequest, pk: int) -> HttpResponseBase:
    """GET shows what a failback does; POST, with a reason, starts it."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target", "runner"), pk=pk)
    if request.method != "POST":
        return _begin_page(request, flow)
    demand_here(flow.opposite_subject)
    why = request.POST.get("reason", "").strip()[:500]
    if not why:
        return _begin_page(request, flow, "Give a reason: it is kept in the history.", 422)
    try:
        run = lifecycle.request_failback(flow=flow, who=request.user.get_username(), why=why)
    except UnderstudyError as error:
        return _begin_page(request, flow, error.message, 409)
    return redirect("failback", pk=run.pk)


def _begin_page(
    request: HttpRequest, flow: Flow, error: str = "", status: int = 200
) -> HttpResponseBase:
    points = Divergence.objects.filter(flow=flow)
    body = {"flow": flow.pk, "reason": "…"}
    context: dict[str, Any] = {
        "flow": flow,
        "error": error,
        "points": points,
        "total": points.count(),
        "runs": Failback.objects.filter(flow=flow),
        "open_run": Failback.objects.filter(flow=flow, ended_at=None).first(),
        "commands": [
            curl(request, "Fail back over REST", "POST", "failbacks/", body),
            curl(request, "Read the divergence", "GET", f"flows/{flow.pk}/divergence/"),
        ],
    }
    if file := file_of(request, context, BEGIN_LISTS, f"{flow.source.alias}-{flow.target.alias}"):
        return file
    first(context, SHOWN_ROWS, "points", "runs")
    return render_page(
        request, "mirrors/failback/begin.html", context, section="failovers", status=status
    )


@require_safe
@needs(Right.VIEW)
def show_failback(request: HttpRequest, pk: int) -> HttpResponseBase:
    runs = Failback.objects.select_related(
        "flow__source", "flow__target", "reverse__source", "reverse__target"
    )
    run = get_object_or_404(runs, pk=pk)
    rows = list(run.orphans.all())
    is_open = run.ended_at is None
    context: dict[str, Any] = {
        "run": run,
        "title": f"Orphans of failover {run.failover_id}"
        if run.scope
        else f"Failback of {arrow(run.flow.name)}",
        "is_open": is_open,
        "busy": run.state in _BUSY,
        "orphans": rows,
        "totals": _totals(rows),
        "choices": CHOICES,
        "starts": run.starts,
        "groups": run.groups,
        "fences": [
            *remaining_fences(source_id=run.flow.source_id, target_id=run.flow.target_id),
            *remaining_fences(source_id=run.flow.target_id, target_id=run.flow.source_id),
        ],
        "lag": switchover.lag_of(run) if run.reverse_id else None,
        "switches": FailoverRun.objects.filter(
            flow=run.reverse_id, created_at__gte=run.created_at
        ).defer("plan", "result"),
        "commands": _commands(request, run),
    }
    if file := file_of(request, context, FAILBACK_LISTS, f"failback-{pk}"):
        return file
    first(context, SHOWN_ROWS, *FAILBACK_LISTS)
    every = 1 if run.state in _BUSY else 3 if is_open else None
    return render_page(
        request, "mirrors/failback/run.html", context, section="failovers", every=every
    )


def _totals(rows: list[OrphanStretch]) -> dict[str, int]:
    waits = (OrphanState.LISTED, OrphanState.FAILED)
    return {
        "records": sum(row.records for row in rows),
        "waiting": sum(row.records for row in rows if row.state in waits),
        "gone": sum(row.gone for row in rows),
        "partitions": len(rows),
    }


def _commands(request: HttpRequest, run: Failback) -> list[dict[str, str]]:
    path, why = f"failbacks/{run.pk}/", {"reason": "…"}
    decision = {"decision": "replay", **why}
    of_orphans = [
        curl(request, "Read this failback", "GET", path),
        curl(request, "Orphans by partition", "GET", f"{path}orphans/"),
        curl(request, "Decide on them", "POST", f"{path}decide/", decision),
    ]
    if run.scope:
        return of_orphans
    return [
        *of_orphans,
        curl(request, "Move idle groups back", "POST", f"{path}groups/", {"act": True}),
        curl(request, "Switch back", "POST", f"{path}switch/", {"confirm_alias": "…", **why}),
    ]


@require_POST
@needs(Right.OPERATE)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide on one partition's orphans, or on all undecided ones."""
    run = get_object_or_404(Failback.objects.select_related("flow"), pk=pk)
    chosen = request.POST.get("stretch", "")
    partitions = None
    if chosen.isdecimal():
        row = get_object_or_404(OrphanStretch, pk=int(chosen[:18]), failback=run)
        partitions = [(row.topic, row.partition)]
    try:
        count = orphans.decide(
            run=run,
            decision=request.POST.get("decision", ""),
            partitions=partitions,
            who=request.user.get_username(),
            why=request.POST.get("reason", "").strip()[:500],
            now=timezone.now(),
        )
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"Decided for {count} partitions. A worker carries it out.")
    return redirect("failback", pk=pk)


@require_POST
@needs(Right.OPERATE)
def groups(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    act, done = request.POST.get("act") == "yes", "A worker reads the groups of both clusters."
    who = request.user.get_username()
    attempt(request, lambda: lifecycle.request_groups(run=run, act=act, who=who), done)
    return redirect("failback", pk=pk)


@require_POST
@needs(Right.OPERATE)
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    attempt(request, lambda: lifecycle.retry_failback(run=run, who=request.user.get_username()))
    return redirect("failback", pk=pk)


@require_POST
@needs(Right.OPERATE)
def close(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    who, why = request.user.get_username(), request.POST.get("reason", "").strip()[:500]
    attempt(request, lambda: lifecycle.close_failback(run=run, who=who, why=why))
    return redirect("failback", pk=pk)


@require_POST
@needs(Right.OPERATE)
def switch(request: HttpRequest, pk: int) -> HttpResponse:
    """Simulate the switch now; a switchover follows as soon as the simulation succeeds."""
    rows = Failback.objects.select_related("flow__source", "reverse")
    run = get_object_or_404(rows, pk=pk)
    demand_here(run.flow.opposite_subject)
    try:
        found = switchover.request_switch(
            run=run,
            confirm_alias=request.POST.get("confirm_alias", "")[:100],
            who=request.user.get_username(),
            why=request.POST.get("reason", "").strip()[:400],
        )
    except UnderstudyError as error:
        messages.error(request, error.message)
        return redirect("failback", pk=pk)
    return redirect("failover", pk=found.pk)
