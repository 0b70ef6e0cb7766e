"""Add several flows from a template: a preview with conflicts first, then all or none."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.domain.migration.flow_templates import TEMPLATES, PlannedFlow, TemplatePlan
from mirrors.forms.migration.flow_templates import LAST_PLACE, TemplateForm
from mirrors.models import Cluster, needs
from mirrors.models.flows import DesiredState
from mirrors.services.migration import flow_templates as services
from mirrors.views.page import curl, mark_cluster, render_page


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def add_from_template(request: HttpRequest) -> HttpResponse:
    """The first POST previews each flow with its verdict; the second one creates them."""
    clusters = [mark_cluster(cluster) for cluster in Cluster.objects.all()]
    form = TemplateForm(request.POST or None, clusters=clusters, initial=_initial(request))
    plan: TemplatePlan | None = None
    if request.method == "POST" and form.is_valid():
        try:
            plan = services.preview_template(
                kind=form.chosen_kind, clusters=form.chosen, properties=form.settings()
            )
            agreed = request.POST.get("apply") in {"make", "start"}
            if agreed and plan.is_whole and request.POST.get("seen") == plan.digest:
                return _apply(request, form, plan)
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
    return _page(request, form, None if form.errors else plan)


def _initial(request: HttpRequest) -> dict[str, Any]:
    kind = request.GET.get("kind", "")
    return {"kind": kind if kind in TEMPLATES else "active-passive"}


def _apply(request: HttpRequest, form: TemplateForm, plan: TemplatePlan) -> HttpResponse:
    start = request.POST.get("apply") == "start"
    flows = services.apply_template(
        kind=form.chosen_kind,
        clusters=form.chosen,
        properties=form.settings(),
        digest=plan.digest,
        runner=form.cleaned_data["runner"],
        desired_state=DesiredState.RUNNING if start else DesiredState.STOPPED,
        who=request.user.get_username(),
    )
    for flow in flows:
        tasks.reconcile_flow.delay_on_commit(flow.pk)
    names = ", ".join(arrow(flow.name) for flow in flows)
    rest = "they start now" if start else "stopped until you start them"
    messages.success(request, f"{names} created, {rest}.")
    return redirect("topology")


def _page(request: HttpRequest, form: TemplateForm, plan: TemplatePlan | None) -> HttpResponse:
    form.mark_fields()
    enough = len(form.clusters) >= 2
    context = {
        "form": form,
        "templates": TEMPLATES.values(),
        "kind": form["kind"].value(),
        "last_place": LAST_PLACE,
        "plan": plan,
        "rows": [_row(flow) for flow in plan.flows] if plan else [],
        "missing": "" if enough else "A template needs at least two clusters.",
        "commands": [curl(request, "Preview a template", "POST", "templates/", _body(form, plan))],
    }
    status = 422 if form.errors or (plan and not plan.is_whole) else 200
    return render_page(
        request, "mirrors/migration/flow_templates.html", context, section="flows", status=status
    )


def _row(flow: PlannedFlow) -> dict[str, Any]:
    if flow.problems:
        return {"flow": flow, "state": "critical", "word": "cannot be made"}
    if flow.warnings:
        return {"flow": flow, "state": "attention", "word": "look at this"}
    return {"flow": flow, "state": "good", "word": "can be made"}


def _body(form: TemplateForm, plan: TemplatePlan | None) -> dict[str, Any]:
    if plan is None:
        return {"kind": "hub", "clusters": ["HUB", "SPOKE", "SPOKE"]}
    aliases = [cluster.alias for cluster in form.chosen]
    return {"kind": plan.kind, "clusters": aliases, "properties": plan.properties}
