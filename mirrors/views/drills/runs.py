"""Pages of drills: runs, one run, schedules, and the button that starts a drill now."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.domain.states.runs import DRILL, DrillState
from mirrors.lists.drills import DRILL_RUNS, DRILL_SCHEDULES
from mirrors.models import Drill, DrillRun, Flow, needs
from mirrors.models.failover import Verification
from mirrors.services.drills import schedules
from mirrors.services.drills.certificates.issuance import evidence_of
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, table_of


@require_safe
@needs(Right.VIEW)
def list_runs(request: HttpRequest) -> HttpResponseBase:
    rows = DrillRun.objects.select_related("certificate")
    if download := export(request, DRILL_RUNS, rows, "drills", mark=_flat):
        return download
    table = table_of(request, DRILL_RUNS, rows)
    for run in table.page:
        _mark(run)
    states = filter_of("state", "Result", DRILL.names, table.chosen)
    verified = filter_of("verification", "Verified", Verification.values, table.chosen)
    context = {
        "table": table,
        "filters": [states, verified],
        "tab": "history",
        "commands": [curl(request, "Read the history", "GET", "drill-runs/")],
    }
    return render_page(request, "mirrors/drills/list.html", context, section="drills", every=5)


@require_safe
@needs(Right.VIEW)
def list_schedules(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    rows = Drill.objects.select_related("flow__source", "flow__target").annotate(
        label=Concat("flow__source__alias", Value("->"), "flow__target__alias")
    )

    def mark(drill: Any) -> Any:
        drill.next_at = schedules.next_at(drill, now=now)
        return drill

    if download := export(request, DRILL_SCHEDULES, rows, "drill-schedules", mark=mark):
        return download
    table = table_of(request, DRILL_SCHEDULES, rows)
    for drill in table.page:
        mark(drill)
    context = {
        "table": table,
        "filters": [],
        "tab": "schedules",
        "commands": [
            curl(request, "Schedule one", "POST", "drills/", {"flow": 1, "schedule": "0 3 * * 1"})
        ],
    }
    return render_page(request, "mirrors/drills/list.html", context, section="drills", every=5)


@require_safe
@needs(Right.VIEW)
def show_run(request: HttpRequest, pk: int) -> HttpResponse:
    rows = DrillRun.objects.select_related("certificate", "run", "flow__source", "flow__target")
    run = _mark(get_object_or_404(rows, pk=pk))
    is_open = run.ended_at is None
    context = {
        "run": run,
        "is_open": is_open,
        "title": f"Drill {run.pk} of {arrow(run.flow_name)}",
        "verdict": run.verdict or {},
        "tone": _tone(run),
        "kept": evidence_of(run.run) is not None,
        "commands": [curl(request, "Read this drill", "GET", f"drill-runs/{pk}/")],
    }
    every = 2 if is_open or run.certificate_number == "" else None
    return render_page(request, "mirrors/drills/run.html", context, section="drills", every=every)


@require_POST
@needs(Right.OPERATE)
def drill_now(request: HttpRequest, pk: int) -> HttpResponse:
    """Start a drill without a confirmation: it changes nothing but its temporary groups."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    try:
        run = schedules.request_drill(flow=flow, who=request.user.get_username())
    except UnderstudyError as error:
        messages.warning(request, error.message)
        known = DrillRun.objects.filter(flow=flow, ended_at=None).first()
        return redirect("drill-run", pk=known.pk) if known else redirect("flow", pk=pk)
    return redirect("drill-run", pk=run.pk)


def _tone(run: DrillRun) -> str:
    """Green only if everything is verified and every objective was met."""
    good = run.state == DrillState.PASSED and run.verification == Verification.VERIFIED
    return "good" if good else "attention"


def _mark(run: Any) -> Any:
    """Add what templates read; a missing certificate has an empty number."""
    certificate = getattr(run, "certificate", None)
    run.certificate_number = certificate.number if certificate else ""
    run.missed = {row["objective"] for row in (run.verdict or {}).get("breaches", [])}
    return run


class _Facts:
    """A dictionary whose keys are attributes, for the columns of a download."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)


def _flat(run: Any) -> Any:
    run.measured = _Facts(run.measured or {})
    return run
