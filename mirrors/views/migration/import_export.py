"""Import a MirrorMaker file: a preview of every line first, then all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.domain.migration.imports.plan import ImportPlan
from mirrors.forms.migration.import_export import ImportForm
from mirrors.models import Cluster, needs
from mirrors.services.migration import import_export as services
from mirrors.views.page import curl, render_page
from mirrors.views.tables import fold

_STATES = {
    "used": "good",
    "defaulted": "resting",
    "different": "attention",
    "unsupported": "critical",
}
_PROBLEMS_FIRST = ("unsupported", "different", "defaulted", "used")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def import_file(request: HttpRequest) -> HttpResponse:
    """The first POST previews every line; the second one applies the preview."""
    form = ImportForm(request.POST or None, request.FILES or None)
    plan: ImportPlan | None = None
    if request.method == "POST" and form.is_valid():
        try:
            plan = services.preview_import(
                kind=form.chosen,
                text=form.cleaned_data["text"],
                leave_out=form.cleaned_data["leave_out"],
            )
            agreed = request.POST.get("apply") == "yes" and request.POST.get("seen") == plan.digest
            if agreed and not plan.refused:
                return _apply(request, form, plan)
        except UnderstudyError as error:
            form.add_error(None, error.message)
        # An uploaded file continues as text: a browser cannot refill a file field.
        data = request.POST.copy()
        data["text"] = form.cleaned_data.get("text", "")
        form.data = data
    return _page(request, form, plan)


def _apply(request: HttpRequest, form: ImportForm, plan: ImportPlan) -> HttpResponse:
    made = services.apply_import(
        kind=form.chosen,
        text=form.cleaned_data["text"],
        digest=plan.digest,
        who=request.user.get_username(),
        leave_out=form.cleaned_data["leave_out"],
    )
    for cluster in Cluster.objects.filter(alias__in=made.clusters):
        tasks.check_cluster.delay_on_commit(cluster.pk)
    if not made.flows:
        messages.info(request, "No change: the flows exist already with these settings.")
        return redirect("flows")
    names = ", ".join(arrow(flow.name) for flow in made.flows)
    messages.success(
        request, f"{names} imported as stopped flows. Start each when MirrorMaker is stopped."
    )
    return redirect("flows")


def _folded_summary(taken: Sequence[Any]) -> str:
    used = sum(line.verdict == "used" for line in taken)
    defaulted = len(taken) - used
    parts = (
        (used, f"{used} line{'s' * (used != 1)} used as written"),
        (defaulted, f"{defaulted} setting{'s' * (defaulted != 1)} not in the text"),
    )
    return ", ".join(words for count, words in parts if count)


def _page(request: HttpRequest, form: ImportForm, plan: ImportPlan | None) -> HttpResponse:
    form.mark_fields()
    lines = sorted(plan.lines, key=lambda line: _PROBLEMS_FIRST.index(line.verdict)) if plan else []
    rows, taken = fold(lines, lambda line: line.verdict in ("used", "defaulted"))
    context: dict[str, Any] = {
        "form": form,
        "plan": plan,
        "rows": [{"line": line, "state": _STATES[line.verdict]} for line in rows],
        "taken": [{"line": line, "state": _STATES[line.verdict]} for line in taken],
        "taken_words": _folded_summary(taken),
        "commands": [
            curl(request, "Preview an import", "POST", "imports/"),
            curl(request, "Export all flows", "POST", "exports/"),
        ],
    }
    status = 422 if form.errors or (plan and plan.refused) else 200
    return render_page(
        request, "mirrors/migration/import.html", context, section="flows", status=status
    )


@require_safe
@needs(Right.VIEW)
def export_file(request: HttpRequest) -> HttpResponse:
    """All flows as a file that MirrorMaker 2 accepts."""
    try:
        text = services.export_flows()
    except UnderstudyError as error:
        messages.error(request, error.message)
        return redirect("flows")
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="mm2.properties"'
    return answer
