"""Topics and partitions that failovers leave behind: the decisions, and their form."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.lists.failover import LEFT_BEHIND
from mirrors.models import Flow, LeftBehind, needs
from mirrors.services.failover import left_behind
from mirrors.views.page import curl, render_page
from mirrors.views.tables import whole_file

SHOWN_WITHDRAWN = 50
_FIELDS = ("topic", "partition", "reason")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def show_left_behind(request: HttpRequest, pk: int) -> HttpResponseBase:
    """GET lists the decisions and shows the form; POST adds a decision."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    given = {name: request.GET.get(name, "")[:500] for name in _FIELDS}
    if request.method != "POST":
        return _page(request, flow, given)
    given = {name: request.POST.get(name, "").replace("\x00", "").strip() for name in _FIELDS}
    number = given["partition"]
    is_number = number.isascii() and number.isdecimal() and len(number) < 11
    try:
        if number and not is_number:
            words = "Enter a partition number, or leave it empty for the whole topic."
            raise InvalidSettings({"partition": [words]})
        row = left_behind.decide(
            flow=flow,
            topic=given["topic"],
            partition=int(number) if number else None,
            reason=given["reason"],
            who=request.user.get_username(),
            now=timezone.now(),
        )
    except InvalidSettings as error:
        return _page(request, flow, given, error.fields, 422)
    except UnderstudyError as error:
        return _page(request, flow, given, {"topic": [error.message]}, 409)
    messages.success(request, f"Failovers leave {row} behind. Simulate again before you fail over.")
    return redirect("flow-left-behind", pk=pk)


@require_POST
@needs(Right.OPERATE)
def withdraw(request: HttpRequest, pk: int, finding: int) -> HttpResponse:
    rows = LeftBehind.objects.select_related("flow__source", "flow__target").filter(flow=pk)
    row = get_object_or_404(rows, pk=finding)
    try:
        left_behind.withdraw(
            row=row,
            why=request.POST.get("reason", "").replace("\x00", ""),
            who=request.user.get_username(),
            now=timezone.now(),
        )
    except UnderstudyError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"Failovers include {row} again. Simulate again.")
    return redirect("flow-left-behind", pk=pk)


def _page(
    request: HttpRequest,
    flow: Flow,
    given: dict[str, str],
    errors: dict[str, list[str]] | None = None,
    status: int = 200,
) -> HttpResponseBase:
    rows = LeftBehind.objects.filter(flow=flow)
    path = f"flows/{flow.pk}/left-behind/"
    body = {"topic": given["topic"] or "orders", "partition": None, "reason": "…"}
    context = {
        "flow": flow,
        "title": f"Left behind in failovers of {arrow(flow.name)}",
        "rows": list(rows.filter(withdrawn_at=None)),
        "past": list(rows.exclude(withdrawn_at=None)[:SHOWN_WITHDRAWN]),
        "given": given,
        "errors": errors or {},
        "commands": [
            curl(request, "Leave a topic behind", "POST", path, body),
            curl(request, "Read the decisions", "GET", path),
        ],
    }
    name = f"{flow.source.alias}-{flow.target.alias}-left-behind"
    if file := whole_file(request, context, LEFT_BEHIND, name):
        return file
    return render_page(
        request, "mirrors/failover/left_behind.html", context, section="flows", status=status
    )
