"""Pages of failovers: flows with their runs, one simulation, and the button that starts one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.failover.runbook.plan_drift import EXPECTED, remaining_blockers
from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.domain.formatting import arrow
from mirrors.domain.states.runs import FAILOVER_RUN, FailoverState
from mirrors.lists.failover import FAILOVERS
from mirrors.models import FailoverRun, Flow, needs
from mirrors.models.failover import OPEN_RUNS, FailoverKind, Verification
from mirrors.services.errors import Conflict
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.simulation import simulator
from mirrors.views.failover.application import address_of
from mirrors.views.failover.cards import cards
from mirrors.views.failover.result_tables import (
    SIMULATION,
    download_rows,
    failed_first,
    findings_of,
    partitions_at_risk,
    stated,
)
from mirrors.views.failover.runbook import show_execution, undo_sentences
from mirrors.views.page import attempt, curl, filter_of, render_page
from mirrors.views.tables import export, file_of, first, table_of

SHOWN_ROWS = 200
SHOWN_FINDINGS = 30


@require_safe
@needs(Right.VIEW)
def list_runs(request: HttpRequest) -> HttpResponseBase:
    rows = (
        FailoverRun.objects.select_related("flow__source", "flow__target")
        .defer("plan", "result", "counted_rows")
        .annotate(label=Concat("flow__source__alias", Value("->"), "flow__target__alias"))
    )
    if download := export(request, FAILOVERS, rows, "failovers"):
        return download
    table = table_of(request, FAILOVERS, rows)
    states = filter_of("state", "State", FAILOVER_RUN.names, table.chosen)
    kinds = filter_of("kind", "Kind", FailoverKind.values, table.chosen)
    verified = filter_of("verification", "Verified", Verification.values, table.chosen)
    context = {
        "table": table,
        "filters": [kinds, states, verified],
        **cards(request, timezone.now()),
    }
    return render_page(request, "mirrors/failover/list.html", context, section="failovers", every=3)


@require_safe
@needs(Right.VIEW)
def show_run(request: HttpRequest, pk: int) -> HttpResponseBase:
    runs = FailoverRun.objects.select_related("flow__source", "flow__target")
    run = get_object_or_404(runs.prefetch_related("steps"), pk=pk)
    if run.kind in KINDS:
        return show_execution(request, run)
    result, plan = run.result or {}, run.plan or {}
    if download := download_rows(request, run):
        return download
    rows = failed_first(result.get("partitions", []))
    findings = {
        name: (plan.get(name, [])[:SHOWN_FINDINGS], len(plan.get(name, [])) - SHOWN_FINDINGS)
        for name in ("blockers", "warnings")
    }
    context = {
        "run": run,
        "title": f"Simulated failover {arrow(run.flow.name)}",
        "is_open": run.state in OPEN_RUNS,
        "old": run.ended_at is not None
        and timezone.now() - run.ended_at > commands.simulation_lifetime(),
        "totals": result.get("totals"),
        "tone": _tone(run),
        "loss_words": stated(result.get("totals"), "loss"),
        "re_read_words": stated(result.get("totals"), "re_reads"),
        "verified_label": "nothing verified" if run.verification == Verification.NONE else "",
        "steps": run.steps.all(),
        "plan": plan,
        "in_the_way": remaining_blockers("switchover", plan) if plan else (),
        "own": EXPECTED["switchover"],
        "findings": findings,
        "found": findings_of(plan),
        "rows": rows[:SHOWN_ROWS],
        "more_rows": len(rows) - SHOWN_ROWS,
        "lossy": partitions_at_risk(plan),
        "scope_query": address_of(run.scope),
        "commands": _commands(request, run),
    }
    if file := file_of(request, context, SIMULATION, f"simulation-{pk}"):
        return file
    first(context, SHOWN_ROWS, "lossy")
    every = 1 if run.state in OPEN_RUNS else None
    return render_page(
        request, "mirrors/failover/simulation.html", context, section="failovers", every=every
    )


@require_POST
@needs(Right.OPERATE)
def simulate(request: HttpRequest, pk: int) -> HttpResponse:
    """Start a simulation without a confirmation: it changes nothing but its temporary groups."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    try:
        run = simulator.request_simulation(flow=flow, who=request.user.get_username())
    except Conflict as error:
        messages.warning(request, error.message)
        known = FailoverRun.objects.filter(flow=flow, ended_at=None).first()
        return redirect("failover", pk=known.pk) if known else redirect("flow", pk=pk)
    return redirect("failover", pk=run.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.OPERATE)
def abort(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows what is undone; POST aborts."""
    runs = FailoverRun.objects.select_related("flow__source", "flow__target")
    run = get_object_or_404(runs, pk=pk)
    if request.method == "POST":
        who = request.user.get_username()
        why = request.POST.get("reason", "").replace("\x00", "").strip()[:500]
        attempt(request, lambda: lifecycle.abort_run(run=run, who=who, why=why))
        return redirect("failover", pk=pk)
    undone = undo_sentences(run)
    context = {
        "title": f"Abort {run.kind} {arrow(run.flow.name)}",
        "verb": "Abort and undo" if undone else "Abort",
        "sentences": [
            "These steps are undone, in this order. An abort cannot be withdrawn."
            if undone
            else "Nothing was changed yet, so nothing is undone. An abort cannot be withdrawn.",
            *undone,
        ],
        "action": request.path,
        "back": reverse("failover", args=[pk]),
        "asks_reason": True,
    }
    return render_page(request, "confirm.html", context, section="failovers")


def _tone(run: FailoverRun) -> str:
    """The color of the outcome: green only if everything is verified and nothing is lost."""
    if run.state != FailoverState.SUCCEEDED:
        return "resting" if run.state == FailoverState.ABORTED else "critical"
    if run.verification == Verification.NONE:
        return "resting"
    totals = (run.result or {}).get("totals") or {}
    if run.verification == Verification.VERIFIED and totals.get("loss") == 0:
        return "good"
    return "critical" if run.verification == Verification.NOT_VERIFIED else "attention"


def _commands(request: HttpRequest, run: FailoverRun) -> list[dict[str, str]]:
    body: dict[str, Any] = {"flow": run.flow_id, "kind": run.kind}
    if run.scope:
        body["scope"] = run.scope
    if run.groups:
        body["groups"] = run.groups
    return [
        curl(request, "Simulate again", "POST", "failovers/", body),
        curl(request, "Read this run", "GET", f"failovers/{run.pk}/"),
    ]
