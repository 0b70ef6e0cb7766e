"""The form of a flow: add one, or edit one after a preview of what restarts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.formatting import arrow
from mirrors.domain.transforms.rules import TRANSFORMS
from mirrors.forms.flows import FlowForm
from mirrors.lists.topics import TOPIC_PREVIEW
from mirrors.models import Cluster, Flow, TopicPreview, needs
from mirrors.models.access.grants import demand_here
from mirrors.models.clusters import pair_subject
from mirrors.models.flows import DesiredState
from mirrors.services.access import grants
from mirrors.services.flows import settings
from mirrors.services.topics import readings
from mirrors.views.edit_impact import Change, Impact
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import clean, whole_file


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def add_flow(request: HttpRequest) -> HttpResponseBase:
    preview = _preview_of(request)
    given = ("source", "target", "topics", "start_from", "skip_replicated")
    chosen = {name: text[:20_000] for name in given if (text := request.GET.get(name, ""))}
    form = FlowForm(request.POST or (preview.typed if preview else None), initial=chosen)
    if request.POST.get("preview") and form.is_valid():
        if answer := _request_preview(request, form, "flow-add"):
            return answer
    elif request.method == "POST" and form.is_valid():
        start = request.POST.get("start") == "yes"
        if start:
            pair = pair_subject(form.cleaned_data["source"], form.cleaned_data["target"])
            demand_here(pair, Right.OPERATE)
        try:
            flow = settings.create_flow(
                source=form.cleaned_data["source"],
                target=form.cleaned_data["target"],
                runner=form.cleaned_data["runner"],
                properties=form.settings(),
                desired_state=DesiredState.RUNNING if start else DesiredState.STOPPED,
                who=request.user.get_username(),
            )
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error("target", error.message)
        else:
            tasks.reconcile_flow.delay_on_commit(flow.pk)
            # The page of the flow links to a preview of its rules then.
            tag = "rules" if TRANSFORMS in flow.properties else ""
            messages.success(request, f"{arrow(flow.name)} is created.", tag)
            return redirect("flow", pk=flow.pk)
    return _form_page(request, form, preview=preview)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.EDIT)
def edit_flow(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The first POST shows what the edit restarts; the second one, with its digest, saves it."""
    rows = Flow.objects.select_related("source", "target", "runner")
    flow = get_object_or_404(rows, pk=pk)
    preview = _preview_of(request)
    form = FlowForm(request.POST or (preview.typed if preview else None), flow=flow)
    impact: Impact | None = None
    if request.POST.get("preview") and form.is_valid():
        if answer := _request_preview(request, form, "flow-edit", pk):
            return answer
    elif request.method == "POST" and form.is_valid():
        try:
            impact = _impact(flow, form)
            if not impact.changes:
                messages.info(request, f"{arrow(flow.name)} was not changed.")
                return redirect("flow-part", pk=pk, part="configuration")
            if impact.agreed(request):
                settings.update_flow(flow=flow, who=request.user.get_username(), **_wanted(form))
                tasks.reconcile_flow.delay_on_commit(flow.pk)
                messages.success(request, f"{arrow(flow.name)} is changed; it takes effect now.")
                return redirect("flow-part", pk=pk, part="configuration")
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
    return _form_page(request, form, flow, None if form.errors else impact, preview)


@require_POST
@needs(Right.ADMINISTER)
def set_labels(request: HttpRequest, pk: int) -> HttpResponse:
    """The labels of the form, separated by commas."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    names, who = clean(request.POST.get("labels", "")).split(","), request.user.get_username()
    attempt(
        request, lambda: grants.set_labels(flow=flow, names=names, who=who), "Labels are saved."
    )
    return redirect("flow-part", pk=pk, part="configuration")


def _preview_of(request: HttpRequest) -> TopicPreview | None:
    """The person's own preview that the address names."""
    number = request.GET.get("preview", "")
    if request.method == "POST" or not (number.isdecimal() and len(number) < 19):
        return None
    rows = TopicPreview.objects.select_related("source", "target")
    return rows.filter(pk=int(number), requested_by=request.user.get_username()[:150]).first()


def _request_preview(
    request: HttpRequest, form: FlowForm, page: str, *args: int
) -> HttpResponse | None:
    """Let a worker list the topics; the page with the same form follows it. None on an error."""
    try:
        preview = readings.request_preview(
            source=form.cleaned_data["source"],
            target=form.cleaned_data["target"],
            properties=form.settings(),
            who=request.user.get_username(),
            typed={name: request.POST.get(name, "") for name in form.fields},
        )
    except InvalidSettings as error:
        form.refuse(error)
    except UnderstudyError as error:
        form.add_error(None, error.message)
    else:
        return redirect(f"{reverse(page, args=args)}?preview={preview.pk}#preview-title")
    return None


def _wanted(form: FlowForm) -> dict[str, Any]:
    return {"properties": form.settings(), "runner": form.cleaned_data["runner"]}


def _impact(flow: Flow, form: FlowForm) -> Impact:
    preview = settings.preview_update(flow=flow, **_wanted(form))
    changes = [
        Change(str(item["key"]), item["before"] or "", item["after"] or "")
        for item in preview.changes
    ]
    sentences = [*preview.restarts, *preview.warnings]
    is_stopped = flow.desired_state == DesiredState.STOPPED
    calm = (
        "is stopped and uses this when it starts" if is_stopped else "applies this within seconds"
    )
    return Impact.of(changes, sentences, calm=f"The flow {calm}.")


def _form_page(
    request: HttpRequest,
    form: FlowForm,
    flow: Flow | None = None,
    impact: Impact | None = None,
    preview: TopicPreview | None = None,
) -> HttpResponseBase:
    form.mark_fields()
    enough = flow is not None or Cluster.objects.count() >= 2
    missing = "" if enough else "A flow needs two clusters: a source and a target."
    state = preview.state_at(timezone.now()) if preview else ""
    body = {"source": "…", "target": "…", "properties": {"topics": "…"}}
    context = {
        "form": form,
        "flow": flow,
        "impact": impact,
        "missing": missing,
        "preview": preview,
        "preview_state": state,
        "commands": [curl(request, "Preview the topics", "POST", "topic-previews/", body)],
    }
    if preview and (file := whole_file(request, context, TOPIC_PREVIEW, "topics")):
        return file
    return render_page(
        request,
        "mirrors/flows/form.html",
        context,
        section="flows",
        status=422 if form.errors else 200,
        every=1 if state == "requested" else None,
    )
