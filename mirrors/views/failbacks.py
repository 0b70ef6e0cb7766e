"""Pages of the way back: ask for it, follow it, decide on what only the old primary has."""

from __future__ import annotations

import json
import types
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors import tasks
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.figures import arrow
from mirrors.models import Divergence, Failback, Flow, OrphanStretch, Role, needs, role_of
from mirrors.models.failbacks import FailbackState, OrphanState
from mirrors.services import failbacks, orphans
from mirrors.views.render import render_page
from mirrors.views.shared import curl
from mirrors.views.tables import Column, download

SHOWN_ROWS = 200
SHOWN_RECORDS = 50
_BUSY = (FailbackState.QUEUED, FailbackState.PREPARING)
_COLUMNS = tuple(
    Column(name, name)
    for name in ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
)
CHOICES = {
    "replay": "Bring them over: each is written once into the topic on the new primary, with its "
    "key, value, headers and time, and a header that says where it comes from.",
    "export": "Leave them behind, and keep them here for download.",
    "drop": "Leave them behind. They stay on the old primary as long as it retains them.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.VIEWER)
def ask_failback(request: HttpRequest, pk: int) -> HttpResponse:
    """GET says what will be done; POST, with a reason, does it."""
    if request.method == "POST" and role_of(request.user) < Role.OPERATOR:
        raise PermissionDenied("This needs the role operator.")
    flow = get_object_or_404(Flow.objects.select_related("source", "target", "runner"), pk=pk)
    if request.method != "POST":
        return _asking(request, flow)
    why = request.POST.get("reason", "").strip()[:500]
    if not why:
        return _asking(request, flow, "Say why: it is kept in the history.", 422)
    try:
        run = failbacks.request_failback(flow=flow, who=request.user.get_username(), why=why)
    except UnderstudyError as error:
        return _asking(request, flow, error.message, 409)
    tasks.run_failback.delay_on_commit(run.pk)
    return redirect("failback", pk=run.pk)


def _asking(request: HttpRequest, flow: Flow, error: str = "", status: int = 200) -> HttpResponse:
    points = Divergence.objects.filter(flow=flow)
    body = {"flow": flow.pk, "reason": "…"}
    context = {
        "flow": flow,
        "error": error,
        "points": points[:SHOWN_ROWS],
        "total": points.count(),
        "runs": Failback.objects.filter(flow=flow)[:10],
        "open_run": Failback.objects.filter(flow=flow, ended_at=None).first(),
        "commands": [
            curl(request, "Go back over REST", "POST", "failbacks/", body),
            curl(request, "Where both sides parted", "GET", f"flows/{flow.pk}/divergence/"),
        ],
    }
    return render_page(
        request, "mirrors/failback_ask.html", context, section="failovers", status=status
    )


@require_safe
@needs(Role.VIEWER)
def show_failback(request: HttpRequest, pk: int) -> HttpResponse:
    runs = Failback.objects.select_related(
        "flow__source", "flow__target", "reverse__source", "reverse__target"
    )
    run = get_object_or_404(runs, pk=pk)
    rows = run.orphans.all()
    waiting = [
        row for row in rows if row.records and row.state in (OrphanState.LISTED, OrphanState.FAILED)
    ]
    is_open = run.ended_at is None
    context = {
        "run": run,
        "title": f"Way back of {arrow(run.flow.name)}",
        "is_open": is_open,
        "busy": run.state in _BUSY,
        "orphans": rows[:SHOWN_ROWS],
        "totals": {
            "records": sum(row.records for row in rows),
            "waiting": sum(row.records for row in waiting),
            "gone": sum(row.gone for row in rows),
            "partitions": len(rows),
        },
        "choices": CHOICES,
        "starts": run.starts[:SHOWN_ROWS],
        "groups": run.groups[:SHOWN_ROWS],
        "commands": _commands(request, run),
    }
    every = 1 if run.state in _BUSY else 3 if is_open else None
    return render_page(request, "mirrors/failback.html", context, section="failovers", every=every)


def _commands(request: HttpRequest, run: Failback) -> list[dict[str, str]]:
    path, why = f"failbacks/{run.pk}/", {"reason": "…"}
    decision = {"decision": "replay", **why}
    return [
        curl(request, "Read this way back", "GET", path),
        curl(request, "Orphans by partition", "GET", f"{path}orphans/"),
        curl(request, "Decide on them", "POST", f"{path}decide/", decision),
        curl(request, "Put idle groups back", "POST", f"{path}groups/", {"act": True}),
    ]


@require_POST
@needs(Role.OPERATOR)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Of one partition's orphans, or of all that wait."""
    run = get_object_or_404(Failback.objects.select_related("flow"), pk=pk)
    chosen = request.POST.get("stretch", "")
    places = None
    if chosen.isdecimal():
        row = get_object_or_404(OrphanStretch, pk=int(chosen[:18]), failback=run)
        places = [(row.topic, row.partition)]
    try:
        count = orphans.decide(
            run=run,
            decision=request.POST.get("decision", ""),
            places=places,
            who=request.user.get_username(),
            why=request.POST.get("reason", "").strip()[:500],
            now=timezone.now(),
        )
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        tasks.settle_orphans.delay_on_commit(run.pk)
        messages.success(request, f"Decided for {count} partitions; a worker does it.")
    return redirect("failback", pk=pk)


@require_POST
@needs(Role.OPERATOR)
def groups(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    try:
        failbacks.check_running(run)
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        tasks.bring_groups_back.delay_on_commit(run.pk, request.POST.get("act") == "yes")
        messages.success(request, "A worker asks both clusters for their groups.")
    return redirect("failback", pk=pk)


@require_POST
@needs(Role.OPERATOR)
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    try:
        failbacks.try_again(run=run, who=request.user.get_username())
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        tasks.run_failback.delay_on_commit(run.pk)
    return redirect("failback", pk=pk)


@require_POST
@needs(Role.OPERATOR)
def close(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Failback, pk=pk)
    why = request.POST.get("reason", "").strip()[:500]
    try:
        failbacks.close_failback(run=run, who=request.user.get_username(), why=why)
    except UnderstudyError as error:
        messages.error(request, error.message)
    return redirect("failback", pk=pk)


@require_safe
@needs(Role.VIEWER)
def show_orphans(request: HttpRequest, pk: int, stretch: int) -> HttpResponseBase:
    rows = OrphanStretch.objects.select_related("failback__flow__source", "failback__flow__target")
    row = get_object_or_404(rows, pk=stretch, failback=pk)
    if (kind := request.GET.get("as")) in {"csv", "jsonl"}:
        return _export(row, str(kind))
    given = request.GET.get("from", "0")
    start = int(given) if given.isdecimal() and len(given) < 13 else 0
    found = [
        {**record, "shown_key": _text(record, "key"), "shown_value": _text(record, "value")}
        for record in orphans.read_records(stretch=row, start=start, count=SHOWN_RECORDS)
    ]
    address = f"failbacks/{pk}/orphans/{row.pk}/records/"
    context = {
        "row": row,
        "run": row.failback,
        "title": f"Orphans of {row}",
        "records": found,
        "start": start,
        "before": max(0, start - SHOWN_RECORDS) if start else None,
        "after": start + len(found) if start + len(found) < row.kept else None,
        "commands": [curl(request, "Read them", "GET", address)],
    }
    return render_page(request, "mirrors/orphans.html", context, section="failovers")


def _export(row: OrphanStretch, kind: str) -> StreamingHttpResponse:
    """JSON lines have every byte; a spreadsheet gets text, made safe for it."""
    records = orphans.read_records(stretch=row)
    name = f"orphans-{row.topic}-{row.partition}"
    if kind == "csv":
        return download("csv", _COLUMNS, map(_flat, records), name)
    return StreamingHttpResponse(
        (f"{json.dumps(each)}\n" for each in records),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )


def _flat(record: dict[str, Any]) -> types.SimpleNamespace:
    names = (column.key for column in _COLUMNS)
    cells = {name: _text(record, name) for name in names}
    return types.SimpleNamespace(**{**cells, "headers": json.dumps(record["headers"])})


def _text(record: dict[str, Any], name: str) -> Any:
    """Bytes that are no text are shown as base64."""
    return record.get(name, record.get(f"{name}_base64"))
