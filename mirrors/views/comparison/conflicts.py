"""The page of a flow's conflict reports: the form that requests one, its keys, earlier reports."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.forms.conflicts import ConflictReportForm
from mirrors.lists.comparison import CONFLICT_KEYS, CONFLICT_REPORTS
from mirrors.models import ConflictKey, ConflictReport, Flow, needs
from mirrors.services.comparison import conflicts
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, file_of, table_of

_SHOWN = 20


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, Right.OPERATE)
def show_conflicts(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A POST requests a report; `?report=` shows one, without it the newest."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target", "runner"), pk=pk)
    form = ConflictReportForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            made = conflicts.request_report(
                flow=flow, who=request.user.get_username(), **form.cleaned_data
            )
        except UnderstudyError as error:
            form.add_error(None, error.message)
        else:
            return redirect(f"{reverse('flow-conflicts', args=[pk])}?report={made.pk}#report-title")
    now = timezone.now()
    reports = list(ConflictReport.objects.filter(flow=flow)[:_SHOWN])
    report = _chosen(request, flow) or (reports[0] if reports else None)
    keys = conflicts.with_keys(ConflictKey.objects.filter(report=report), request.user, flow)
    if download := export(request, CONFLICT_KEYS, keys, f"conflicts-{flow.pk}"):
        return download
    table = table_of(request, CONFLICT_KEYS, keys)
    state = report.state_at(now) if report else ""
    context: dict[str, Any] = {
        "flow": flow,
        "form": form,
        "report": report,
        "report_state": state,
        "reports": reports,
        "table": table,
        "filters": [filter_of("agrees", "Same now", ("True", "False"), table.chosen)],
        "commands": [
            curl(request, "Request a report", "POST", "conflicts/", {"flow": pk}),
            *([curl(request, "Its keys", "GET", f"conflicts/{report.pk}/keys/")] if report else []),
        ],
    }
    if file := file_of(request, context, {"reports": CONFLICT_REPORTS}, f"reports-{flow.pk}"):
        return file
    return render_page(
        request,
        "mirrors/comparison/conflicts.html",
        context,
        section="flows",
        status=422 if form.errors else 200,
        every=1 if state == "requested" else None,
    )


def _chosen(request: HttpRequest, flow: Flow) -> ConflictReport | None:
    number = request.GET.get("report", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        return None
    return ConflictReport.objects.filter(flow=flow, pk=int(number)).first()
