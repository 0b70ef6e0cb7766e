"""Pages of comparisons: the list, the form that requests one, one comparison with its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.db.models import Count, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import arrow, plural
from mirrors.domain.states.runs import COMPARISON
from mirrors.forms.comparison import ComparisonForm
from mirrors.lists.columns import ListSpec
from mirrors.lists.comparison import ASPECTS, COMPARISONS, FINDINGS, PARTITIONS
from mirrors.models import Comparison, ComparisonFinding, ComparisonPart, Flow, needs
from mirrors.models.comparison import OPEN_COMPARISONS, Verdict
from mirrors.services.comparison import lifecycle
from mirrors.views.page import attempt, curl, filter_of, render_page
from mirrors.views.tables import export, file_of, fold, table_of

# A verdict, and the state whose icon and color it has.
SHOWN = {"same": "succeeded", "partly": "attention", "differs": "critical", "unread": "unknown"}
WORDS = {"same": "the same", "partly": "the same so far", "unread": "not read"}
_NAMES = {
    "topic": "Topics",
    "partition": "Partitions",
    "config": "Settings",
    "acl": "ACLs",
    "group": "Group offsets",
}


@dataclasses.dataclass(frozen=True)
class Tab:
    """One tab with its table."""

    label: str
    template: str
    spec: ListSpec
    labels: dict[str, str]
    rows: Callable[[Comparison], QuerySet[Any]]


def _findings(run: Comparison) -> QuerySet[ComparisonFinding]:
    return ComparisonFinding.objects.filter(comparison=run)


def _parts(run: Comparison) -> QuerySet[ComparisonPart]:
    return ComparisonPart.objects.filter(comparison=run)


PARTS = {
    "findings": Tab(
        "Finding",
        "mirrors/comparison/_findings.html",
        FINDINGS,
        {"about": "About", "weight": "Weight"},
        _findings,
    ),
    "partitions": Tab(
        "Partitions",
        "mirrors/comparison/_partitions.html",
        PARTITIONS,
        {"verdict": "Content"},
        _parts,
    ),
}


def mark(run: Comparison) -> Any:
    """Add the state and the label that pages show."""
    marked: Any = run
    marked.shown = SHOWN.get(run.verdict, "unknown") if run.verdict else run.state
    marked.words = WORDS.get(run.verdict, run.verdict)
    return marked


def aspects_of(run: Comparison) -> list[dict[str, Any]]:
    """One row per aspect; an aspect that could not be compared has a reason.

    `result`: equal only without notes, such as offsets of groups that are behind on the target.
    """
    noted = run.findings.filter(weight="note").order_by().values("about").annotate(n=Count("pk"))
    notes = {row["about"]: row["n"] for row in noted}
    return [
        {
            **row,
            "label": _NAMES.get(row["about"], row["about"]),
            "state": "critical" if row["differs"] else "good" if row["compared"] else "unknown",
            "result": _label_of_aspect(row, notes.get(row["about"], 0)),
        }
        for row in (run.summary or {}).get("aspects", [])
    ]


def _label_of_aspect(row: dict[str, Any], notes: int) -> str:
    if row["differs"]:
        return "differs"
    if not row["compared"]:
        return "nothing to compare"
    return f"no difference, {plural(notes, 'note')}" if notes else "equal"


@require_safe
@needs(Right.VIEW)
def list_comparisons(request: HttpRequest) -> HttpResponseBase:
    found = (
        Comparison.objects.select_related("flow__source", "flow__target")
        .defer("summary")
        .annotate(label=Concat("flow__source__alias", Value("->"), "flow__target__alias"))
    )
    if download := export(request, COMPARISONS, found, "comparisons"):
        return download
    table = table_of(request, COMPARISONS, found)
    filters = [
        filter_of("state", "State", COMPARISON.names, table.chosen),
        filter_of("verdict", "Result", Verdict.values, table.chosen),
    ]
    for run in table.page:
        mark(run)
    context = {"table": table, "filters": filters}
    return render_page(request, "mirrors/comparison/list.html", context, section="compare", every=3)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.OPERATE)
def add_comparison(request: HttpRequest) -> HttpResponse:
    """The form; `?flow=` selects the flow."""
    if request.method == "POST":
        form = ComparisonForm(request.POST)
        if form.is_valid():
            try:
                run = lifecycle.request_comparison(who=request.user.get_username(), **form.asked())
            except UnderstudyError as error:
                form.add_error(None, error.message)
            else:
                return redirect("comparison", pk=run.pk)
    else:
        named = request.GET.get("flow", "")
        form = ComparisonForm(initial={"flow": int(named) if named.isdecimal() else None})
    context = {"form": form, "flows": Flow.objects.exists()}
    status = 400 if form.errors else 200
    return render_page(
        request, "mirrors/comparison/form.html", context, section="compare", status=status
    )


@require_safe
@needs(Right.VIEW)
def show_comparison(request: HttpRequest, pk: int, part: str = "findings") -> HttpResponseBase:
    found = Comparison.objects.select_related("flow__source", "flow__target", "flow__runner")
    run = mark(get_object_or_404(found, pk=pk))
    shown = PARTS[part]
    if download := export(request, shown.spec, shown.rows(run), f"comparison-{pk}-{part}"):
        return download
    table = table_of(request, shown.spec, shown.rows(run))
    rows, same = fold(table.page, lambda row: getattr(row, "verdict", "") == "same")
    context: dict[str, Any] = {
        "run": run,
        "rows": rows,
        "same": same,
        "title": f"Comparison of {arrow(run.flow.name)}",
        "is_open": run.state in OPEN_COMPARISONS,
        "aspects": aspects_of(run),
        "totals": (run.summary or {}).get("content"),
        "table": table,
        "filters": [
            filter_of(field, shown.labels[field], values, table.chosen)
            for field, values in shown.spec.filters.items()
        ],
        "tab": part,
        "tab_template": shown.template,
        "tabs": [(name, one.label, _tab(pk, name)) for name, one in PARTS.items()],
        "commands": _commands(request, run),
    }
    if file := file_of(request, context, {"aspects": ASPECTS}, f"comparison-{pk}"):
        return file
    every = 1 if context["is_open"] else None
    return render_page(
        request, "mirrors/comparison/detail.html", context, section="compare", every=every
    )


@require_POST
@needs(Right.OPERATE)
def abort(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Comparison, pk=pk)
    attempt(request, lambda: lifecycle.abort_comparison(run=run, who=request.user.get_username()))
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
        "megabytes_per_second": run.megabytes_per_second,
    }
    path = f"comparisons/{run.pk}/"
    return [
        curl(request, "Compare again", "POST", "comparisons/", body),
        curl(request, "Read this comparison", "GET", path),
        curl(request, "Its findings", "GET", f"{path}findings/"),
        curl(request, "Its partitions", "GET", f"{path}partitions/"),
    ]
