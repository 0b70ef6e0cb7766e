"""The page that begins a switchover or failover from a fresh simulation."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from mirrors.domain.access.rights import Right
from mirrors.domain.account.sentences import amount
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.failover.runbook.plan_drift import (
    blast_radius,
    remaining_blockers,
    split_warnings,
)
from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.domain.settings import failover as keys
from mirrors.models import FailoverRun, Flow, needs
from mirrors.models.failover import FailoverKind
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.access.approvals import needs_second_person
from mirrors.services.errors import Conflict
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.simulation import simulator
from mirrors.views.failover.cards import FENCES, fence_of, owed_text
from mirrors.views.failover.result_tables import stated
from mirrors.views.page import curl, mark_flow, render_page

SHOWN = 30
_FIELDS = ("kind", "reason", "confirm_alias")


@require_POST
@needs(Right.OPERATE)
def prepare(request: HttpRequest, pk: int, execution: str) -> HttpResponse:
    """Open the page of this kind of run; simulate first if no simulation is fresh."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    if commands.newest_simulation(flow=flow, now=timezone.now()) is None:
        try:
            simulator.request_simulation(flow=flow, who=request.user.get_username())
        except Conflict as error:
            opened = FailoverRun.objects.filter(flow=flow, ended_at=None).first()
            if opened is not None and opened.kind != FailoverKind.SIMULATION:
                messages.warning(request, error.message)
                return redirect("failover", pk=opened.pk)
    return redirect(f"{reverse('flow-failover', args=[pk])}?kind={execution}")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.OPERATE)
def begin(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the impact from a fresh simulation; begin with the typed alias and a reason."""
    now = timezone.now()
    flow = mark_flow(get_object_or_404(flows_with_lag(), pk=pk), now)
    given = {name: request.POST.get(name, "").replace("\x00", "") for name in _FIELDS}
    errors: dict[str, list[str]] = {}
    trouble, status = "", 200
    if request.method == "POST":
        try:
            run = _requested(request, flow, given)
        except InvalidSettings as error:
            errors, status = error.fields, 422
        except UnderstudyError as error:
            trouble, status = error.message, 409
        else:
            return redirect("failover", pk=run.pk)
    else:
        given["kind"] = request.GET.get("kind", "")
    context = {**_context(request, flow, given["kind"]), "given": given}
    context |= {"errors": errors, "trouble": trouble}
    every = 1 if context["open_simulation"] else None
    return render_page(
        request,
        "mirrors/failover/begin.html",
        context,
        section="failovers",
        status=status,
        every=every,
    )


def _requested(request: HttpRequest, flow: Flow, given: dict[str, str]) -> FailoverRun:
    kind = given["kind"]
    if kind not in KINDS:
        raise InvalidSettings({"kind": ["Choose switchover or failover."]})
    return commands.request_execution(
        flow=flow,
        kind="switchover" if kind == "switchover" else "failover",
        simulation=_chosen(request),
        confirm_alias=given["confirm_alias"],
        why=given["reason"][:500],
        who=request.user.get_username(),
    )


def _chosen(request: HttpRequest) -> int | None:
    """The simulation that the address or the form names."""
    sent = request.POST if request.method == "POST" else request.GET
    number = sent.get("simulation", "")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None


def _pending(simulation: FailoverRun | None) -> str:
    """What one application has to replicate; the account's figures are those of the whole flow."""
    if simulation is None or not simulation.scope:
        return ""
    return f"{amount((simulation.plan or {}).get('pending'), 'at_most')} when simulated"


def _context(request: HttpRequest, flow: Any, kind: str) -> dict[str, Any]:
    now = timezone.now()
    rows = FailoverRun.objects.filter(flow=flow, kind=FailoverKind.SIMULATION)
    opened = rows.filter(ended_at=None).prefetch_related("steps").first()
    chosen = _chosen(request)
    simulation = (
        commands.newest_simulation(flow=flow, now=now)
        if chosen is None
        else commands.fresh_simulation(flow=flow, pk=chosen, now=now)
    )
    body = {
        "flow": flow.pk,
        "kind": kind if kind in KINDS else "switchover",
        "simulation": simulation.pk if simulation else None,
        "confirm_alias": flow.target.alias,
        "reason": "…",
    }
    return {
        "flow": flow,
        "kind": kind if kind in KINDS else "",
        "owed_text": _pending(simulation) or owed_text(flow, now),
        "simulation": simulation,
        "open_simulation": opened if simulation is None else None,
        "old": rows.exclude(ended_at=None).first(),
        "minutes_left": commands.seconds_left(simulation, now) // 60 if simulation else 0,
        "needs_second": needs_second_person(flow),
        "commands": [curl(request, "Start it", "POST", "failovers/", body)],
        **(_found(flow, simulation) if simulation else {}),
    }


def _found(flow: Flow, simulation: FailoverRun) -> dict[str, Any]:
    """What the simulation found, for the two choices and the form."""
    plan: dict[str, Any] = simulation.plan or {}
    fence = fence_of(flow, plan.get("fence"), simulated=True)
    hooks = keys.hooks_of(flow.properties)
    act, report = split_warnings(plan)
    return {
        "radius": blast_radius(plan),
        "blockers": {kind: remaining_blockers(kind, plan)[:SHOWN] for kind in KINDS},
        "act_on": act[:SHOWN],
        "more_act_on": len(act) - SHOWN,
        "reports": report[:SHOWN],
        "reported": len(report),
        "loss": _loss(plan, simulation),
        "re_reads": _re_reads(plan),
        "drain_ms": ((simulation.result or {}).get("totals") or {}).get("drain_ms"),
        "fence": fence,
        "hooks": [
            ("Producers are fenced by", FENCES[fence.how]),
            ("Consumers are started by", _hook(hooks[keys.CONSUMERS])),
            ("Producers are redirected by", _hook(hooks[keys.PRODUCERS])),
        ],
    }


def _hook(how: str) -> str:
    return "a person confirms it" if how == "person" else FENCES[how]


def _loss(plan: dict[str, Any], simulation: FailoverRun) -> str:
    """The loss of a failover: as the simulation counted it, else as its plan states it."""
    totals = (simulation.result or {}).get("totals")
    earlier = amount(plan.get("loss"), "at_most" if plan.get("loss") else "counted")
    return stated(totals, "loss") or stated(plan, "loss") or earlier


def _re_reads(plan: dict[str, Any]) -> str:
    known = plan.get("re_reads_known", plan.get("re_reads"))
    return amount(known, plan.get("re_reads_certainty", "counted"))
