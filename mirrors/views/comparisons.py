"""Pages of comparisons: the list, the form that asks for one, one of them live with its tables."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors import tasks
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.figures import arrow
from mirrors.forms.comparisons import ComparisonForm
from mirrors.models import Comparison, Flow, Role, needs
from mirrors.models.comparisons import OPEN_COMPARISONS, ComparisonState, Verdict
from mirrors.services.comparing import rows
from mirrors.views.comparison_tables import PARTS, aspects_of, mark
from mirrors.views.render import render_page
from mirrors.views.run_sheets import COMPARISON
from mirrors.views.shared import curl, filter_of
from mirrors.views.sheets import file_of
from mirrors.views.tables import Column, Question

QUESTION = Question(
    columns=(
        Column("pk", "Comparison", ("pk",), number=True),
        Column("label", "Flow", ("flow__source__alias", "flow__target__alias")),
        Column("state", "State", ("state",)),
        Column("verdict", "Result", ("verdict",)),
        Column("created_at", "Asked", ("created_at",)),
        Column("ended_at", "Lasted"),
        Column("requested_by", "By", ("requested_by",)),
        Column("reason", "In words"),
    ),
    search=("label", "requested_by", "reason", "why"),
    default="-pk",
    filters={"state": tuple(ComparisonState.values), "verdict": tuple(Verdict.values)},
)


@require_safe
@needs(Role.VIEWER)
def list_comparisons(request: HttpRequest) -> HttpResponseBase:
    found = (
        Comparison.objects.select_related("flow__source", "flow__target")
        .defer("summary")
        .annotate(label=Concat("flow__source__alias", Value("->"), "flow__target__alias"))
    )
    if download := QUESTION.export(request, found, "comparisons"):
        return download
    table = QUESTION.table(request, found)
    filters = [
        filter_of("state", "State", ComparisonState.values, table.chosen),
        filter_of("verdict", "Result", Verdict.values, table.chosen),
    ]
    for run in table.page:
        mark(run)
    context = {"table": table, "filters": filters}
    return render_page(request, "mirrors/comparisons.html", context, section="compare", every=3)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.OPERATOR)
def add_comparison(request: HttpRequest) -> HttpResponse:
    """Ask for one; a link may name the flow."""
    if request.method == "POST":
        form = ComparisonForm(request.POST)
        if form.is_valid():
            try:
                run = rows.request_comparison(who=request.user.get_username(), **form.asked())
            except UnderstudyError as error:
                form.add_error(None, error.message)
            else:
                tasks.run_comparison.delay_on_commit(run.pk)
                return redirect("comparison", pk=run.pk)
    else:
        named = request.GET.get("flow", "")
        form = ComparisonForm(initial={"flow": int(named) if named.isdecimal() else None})
    context = {"form": form, "flows": Flow.objects.exists()}
    status = 400 if form.errors else 200
    return render_page(
        request, "mirrors/comparison_form.html", context, section="compare", status=status
    )


@require_safe
@needs(Role.VIEWER)
def show_comparison(request: HttpRequest, pk: int, part: str = "findings") -> HttpResponseBase:
    found = Comparison.objects.select_related("flow__source", "flow__target")
    run = mark(get_object_or_404(found, pk=pk))
    shown = PARTS[part]
    if download := shown.question.export(request, shown.rows(run), f"comparison-{pk}-{part}"):
        return download
    table = shown.question.table(request, shown.rows(run))
    context: dict[str, Any] = {
        "run": run,
        "title": f"Comparison of {arrow(run.flow.name)}",
        "is_open": run.state in OPEN_COMPARISONS,
        "aspects": aspects_of(run),
        "totals": (run.summary or {}).get("content"),
        "table": table,
        "filters": [
            filter_of(field, shown.labels[field], values, table.chosen)
            for field, values in shown.question.filters.items()
        ],
        "tab": part,
        "tab_template": shown.template,
        "tabs": [(name, one.label, _tab(pk, name)) for name, one in PARTS.items()],
        "commands": _commands(request, run),
    }
    if file := file_of(request, context, COMPARISON, f"comparison-{pk}"):
        return file
    every = 1 if context["is_open"] else None
    return render_page(request, "mirrors/comparison.html", context, section="compare", every=every)


@require_POST
@needs(Role.OPERATOR)
def abort(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Comparison, pk=pk)
    try:
        rows.abort_comparison(run=run, who=request.user.get_username())
    except UnderstudyError as error:
        messages.error(request, error.message)
    return redirect("comparison", pk=pk)


def _tab(pk: int, part: str) -> str:
    if part == "findings":
        return reverse("comparison", args=[pk])
    return reverse("comparison-part", args=[pk, part])


def _commands(request: HttpRequest, run: Comparison) -> list[dict[str, str]]:
    body = {
        "flow": run.flow_id,
        "topics": run.topics,
        "content": run.content,
        "records": run.records,
        "seconds": run.seconds,
        "megabytes": run.megabytes,
    }
    path = f"comparisons/{run.pk}/"
    return [
        curl(request, "Compare again", "POST", "comparisons/", body),
        curl(request, "Read this comparison", "GET", path),
        curl(request, "What it found", "GET", f"{path}findings/"),
        curl(request, "Its partitions", "GET", f"{path}partitions/"),
    ]
