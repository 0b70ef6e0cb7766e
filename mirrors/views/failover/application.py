"""The page that fails over one application: choose its topics and groups, check, simulate."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.failover.scope import Scope, ScopeNames, scope_of
from mirrors.domain.failover.scope_boundary import boundary
from mirrors.domain.formatting import arrow
from mirrors.models import FailoverRun, Flow, FlowTopic, GroupOffset, needs
from mirrors.services.failback.application import create_reverse_flow, failback_of
from mirrors.services.failback.application_orphans import request_listing
from mirrors.services.failover.simulation import simulator
from mirrors.views.page import attempt, curl, render_page

SHOWN = 200
_FIELDS = ("topics", "groups")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def choose_application(request: HttpRequest, pk: int) -> HttpResponse:
    """GET with `topics` and `groups` shows what they select; POST simulates it."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    sent = request.POST if request.method == "POST" else request.GET
    given = {name: sent.get(name, "").replace("\x00", "")[:5000] for name in _FIELDS}
    errors: dict[str, list[str]] = {}
    trouble, status, scope = "", 200, None
    try:
        scope = (
            scope_of(_listed(given)) if request.method == "POST" or any(given.values()) else None
        )
        if request.method == "POST":
            who = request.user.get_username()
            run = simulator.request_simulation(flow=flow, who=who, scope=scope)
            return redirect("failover", pk=run.pk)
    except InvalidSettings as error:
        errors, status = error.fields, 422
    except UnderstudyError as error:
        trouble, status = error.message, 409
    body: dict[str, Any] = {"flow": pk, "kind": "simulation"}
    body["scope"] = scope.to_dict() if scope else {"topics": ["app\\..*"], "groups": ["app-.*"]}
    context = {
        "flow": flow,
        "title": f"Fail over one application of {arrow(flow.name)}",
        "given": given,
        "errors": errors,
        "trouble": trouble,
        "checked": _selected(flow, scope) if scope else None,
        "commands": [curl(request, "Simulate it", "POST", "failovers/", body)],
    }
    return render_page(
        request, "mirrors/failover/application.html", context, section="failovers", status=status
    )


@require_safe
@needs(Right.VIEW)
def show_failback(request: HttpRequest, pk: int) -> HttpResponse:
    """The next step of the failback of one application; other runs lead to the whole flow's."""
    run = _run(pk)
    try:
        found = failback_of(run)
    except UnderstudyError:
        return redirect("flow-failback", pk=run.flow_id)
    listing = {"flow": run.flow_id, "failover": pk, "reason": "…"}
    context = {
        "run": run,
        "found": found,
        "title": f"Fail back one application to {run.flow.source.alias}",
        "scope_query": address_of(found.scope),
        "commands": [
            curl(request, "Read the next step", "GET", f"failovers/{pk}/failback/"),
            curl(request, "Create the reverse flow", "POST", f"failovers/{pk}/failback/"),
            curl(request, "List orphans", "POST", "failbacks/", listing),
        ],
    }
    return render_page(
        request, "mirrors/failback/application.html", context, section="failovers", every=3
    )


@require_POST
@needs(Right.OPERATE)
def create_reverse(request: HttpRequest, pk: int) -> HttpResponse:
    """Create and start the reverse flow for the application's topics."""
    run = _run(pk)
    who = request.user.get_username()
    attempt(request, lambda: create_reverse_flow(run=run, who=who))
    return redirect("application-failback", pk=pk)


@require_POST
@needs(Right.OPERATE)
def list_orphans(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a worker list the records that the failover left."""
    run, who = _run(pk), request.user.get_username()
    why = request.POST.get("reason", "").strip()[:500]
    try:
        listing = request_listing(run=run, who=who, why=why)
    except UnderstudyError as error:
        messages.error(request, error.message)
        return redirect("application-failback", pk=pk)
    return redirect("failback", pk=listing.pk)


def _run(pk: int) -> FailoverRun:
    rows = FailoverRun.objects.select_related("flow__source", "flow__target", "flow__runner")
    return get_object_or_404(rows, pk=pk)


def address_of(scope: dict[str, list[str]]) -> str:
    """The query that fills the page's form with this scope."""
    return urlencode({name: "\n".join(scope.get(name, ())) for name in _FIELDS})


def _listed(given: dict[str, str]) -> dict[str, list[str]]:
    """One pattern per line."""
    return {name: text.splitlines() for name, text in given.items()}


def _selected(flow: Flow, scope: Scope) -> dict[str, Any]:
    """Topics and groups of the scope as the flow last saw them, and what crosses its boundary."""
    names = ScopeNames(scope)
    rows = FlowTopic.objects.filter(flow=flow).exclude(state="skipped")
    topics = [row for row in rows.order_by("topic") if names.has_topic(row.topic)]
    readers: dict[str, set[str]] = defaultdict(set)
    known = GroupOffset.objects.filter(flow=flow, source_offset__isnull=False)
    for group, topic in known.values_list("group", "topic").order_by("group").distinct():
        readers[group].add(topic)
    groups = [name for name, read in readers.items() if names.has_group(name, read)]
    return {
        "topics": topics[:SHOWN],
        "topic_count": len(topics),
        "groups": groups[:SHOWN],
        "group_count": len(groups),
        "warnings": [row.sentence for row in boundary(flow.name, readers, scope)][:SHOWN],
    }
