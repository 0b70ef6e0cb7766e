"""The page of a flow's positions: choose, preview what is copied again or skipped, then apply."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.forms.positions import PositionsForm
from mirrors.models import Flow, PositionChange, needs
from mirrors.services.topics import positions
from mirrors.views.page import attempt, curl, render_page

# How many partitions the preview on the page shows; REST has all.
SHOWN = 500


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def show_positions(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows the last preview; POST requests another one, which changes nothing."""
    flow = _flow(pk)
    form = PositionsForm(request.POST or None, initial={"topics": request.GET.get("topics", "")})
    if request.method == "POST" and form.is_valid():
        try:
            positions.request_preview(
                flow=flow, **form.cleaned_data, who=request.user.get_username()
            )
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
        else:
            return redirect("flow-positions", pk=pk)
    form.mark_fields()
    change = positions.last_change(flow=flow)
    waits = change is not None and change.state in ("requested", "applying")
    context = {
        "flow": flow,
        "form": form,
        "change": change,
        "rows": change.rows[:SHOWN] if change else [],
        "refusal": positions.why_not(flow),
        "commands": [
            curl(request, "Preview a move", "POST", f"flows/{pk}/positions/"),
            curl(request, "Read the last preview", "GET", f"flows/{pk}/positions/"),
        ],
    }
    return render_page(
        request,
        "mirrors/topics/positions.html",
        context,
        section="flows",
        status=422 if form.errors else 200,
        every=1 if waits else 5,
    )


@require_POST
@needs(Right.OPERATE)
def apply_positions(request: HttpRequest, pk: int, change: int) -> HttpResponse:
    row = get_object_or_404(PositionChange, pk=change, flow=pk)
    attempt(
        request,
        lambda: positions.request_apply(
            change=row,
            digest=request.POST.get("seen", ""),
            why=request.POST.get("reason", ""),
            who=request.user.get_username(),
        ),
    )
    return redirect("flow-positions", pk=pk)


def _flow(pk: int) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
