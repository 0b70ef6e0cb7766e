"""Forms: add, edit and delete a drill schedule; set a flow's objectives."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.domain.drills.objectives import Objectives
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.formatting import arrow
from mirrors.forms.drills import DrillForm, ObjectivesForm
from mirrors.models import Drill, Flow, needs
from mirrors.services.drills import schedules
from mirrors.services.drills.objectives import objectives_of, set_objectives
from mirrors.views.page import curl, render_page

_OBJECTIVES = ("rpo_seconds", "rpo_records", "rto_seconds")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def add_drill(request: HttpRequest) -> HttpResponse:
    form = DrillForm(request.POST or None, initial={"flow": request.GET.get("flow", "")})
    if request.method == "POST" and form.is_valid():
        try:
            schedules.create_drill(**form.cleaned_data, who=request.user.get_username())
        except InvalidSettings as error:
            form.refuse(error)
        else:
            messages.success(request, "The drill is scheduled.")
            return redirect("drill-schedules")
    return _form_page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def edit_drill(request: HttpRequest, pk: int) -> HttpResponse:
    drill = get_object_or_404(Drill.objects.select_related("flow__source", "flow__target"), pk=pk)
    form = DrillForm(request.POST or None, drill=drill)
    if request.method == "POST" and form.is_valid():
        wanted = {name: value for name, value in form.cleaned_data.items() if name != "flow"}
        try:
            schedules.update_drill(drill=drill, **wanted, who=request.user.get_username())
        except InvalidSettings as error:
            form.refuse(error)
        else:
            messages.success(request, "The schedule is saved.")
            return redirect("drill-schedules")
    return _form_page(request, form, drill)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def delete_drill(request: HttpRequest, pk: int) -> HttpResponse:
    drill = get_object_or_404(Drill.objects.select_related("flow__source", "flow__target"), pk=pk)
    if request.method == "POST":
        schedules.delete_drill(drill=drill, who=request.user.get_username())
        messages.success(request, "The schedule is deleted.")
        return redirect("drill-schedules")
    context = {
        "title": f"Delete the schedule of {arrow(drill.flow.name)}",
        "action": reverse("drill-delete", args=[pk]),
        "sentences": [
            f"{drill.schedule} {drill.time_zone} no longer runs. Results and certificates of its "
            "drills are kept."
        ],
        "verb": "Delete the schedule",
        "back": reverse("drill-schedules"),
    }
    return render_page(request, "confirm.html", context, section="drills")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def edit_objectives(request: HttpRequest, pk: int) -> HttpResponse:
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    known = objectives_of(flow=flow)
    initial = {name: getattr(known, name) for name in _OBJECTIVES}
    form = ObjectivesForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        wanted = Objectives(**{name: form.cleaned_data[name] for name in _OBJECTIVES})
        try:
            set_objectives(flow=flow, wanted=wanted, who=request.user.get_username())
        except InvalidSettings as error:
            form.refuse(error)
        else:
            messages.success(request, f"The objectives of {arrow(flow.name)} are saved.")
            return redirect("flow-part", pk=pk, part="readiness")
    form.mark_fields()
    context: dict[str, Any] = {
        "form": form,
        "flow": flow,
        "known": known,
        "commands": [
            curl(request, "Set them", "PATCH", f"flows/{pk}/objectives/", {"rpo_seconds": 30})
        ],
    }
    status = 422 if form.errors else 200
    return render_page(
        request, "mirrors/drills/objectives_form.html", context, section="flows", status=status
    )


def _form_page(request: HttpRequest, form: DrillForm, drill: Drill | None = None) -> HttpResponse:
    form.mark_fields()
    context = {"form": form, "drill": drill}
    status = 422 if form.errors else 200
    return render_page(
        request, "mirrors/drills/schedule_form.html", context, section="drills", status=status
    )
