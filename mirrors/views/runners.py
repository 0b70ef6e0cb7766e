"""Pages of runners: the list, one runner with its flows, the form."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.states.runners import RUNNER
from mirrors.forms.runners import RunnerForm
from mirrors.lists.audit import RECENT_TRANSITIONS
from mirrors.lists.flows import LOG
from mirrors.lists.runners import POOL_RUNNERS, RUNNERS
from mirrors.models import Host, Runner, Transition, needs
from mirrors.models.drills.readiness import with_proof
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.flows import moves
from mirrors.services.runners import hosts, pools
from mirrors.services.runners import settings as services
from mirrors.views.drills.readiness import first_flows
from mirrors.views.edit_impact import Change, Impact
from mirrors.views.flows.pages import file_of_flows
from mirrors.views.page import attempt, curl, filter_of, render_page
from mirrors.views.runner_logs import log_of_runner
from mirrors.views.tables import clean, export, file_of, table_of

_SHOWN_HANDOVERS = 30
_EDITABLE = (
    *("master", "slots", "host", "failover_hosts", "spark_ui", "event_log"),
    *("pool", "auto_balance"),
)


def _rows() -> QuerySet[Runner]:
    return Runner.objects.annotate(flow_count=Count("flows"))


@require_safe
@needs(Right.VIEW)
def list_runners(request: HttpRequest) -> HttpResponseBase:
    shown = pools.list_pools(now=timezone.now())
    context: dict[str, Any] = {
        "pools": shown,
        "pool_runners": [row for pool in shown for row in pool.members],
    }
    if request.GET.get("of") == "pools":
        download = file_of(request, context, {"pools": POOL_RUNNERS}, "runners")
    else:
        download = export(request, RUNNERS, _rows(), "runners")
    if download:
        return download
    table = table_of(request, RUNNERS, _rows())
    states = filter_of("state", "State", RUNNER.names, table.chosen)
    context |= {"table": table, "filters": [states], "hosts": hosts.with_runners()}
    return render_page(request, "mirrors/runners/list.html", context, section="runners", every=3)


@require_safe
@needs(Right.VIEW)
def show_runner(request: HttpRequest, name: str) -> HttpResponseBase:
    runner = get_object_or_404(Runner, name=name)
    rows = with_proof(flows_with_lag()).filter(runner=runner)
    if download := file_of_flows(request, rows, f"{name}-flows"):
        return download
    context: dict[str, Any] = {
        "runner": runner,
        "host": Host.objects.filter(name=runner.host).first(),
        "movable_to": [
            row.name
            for row in hosts.with_runners()
            if row.is_held and runner.host and row.name != runner.host
        ],
        **first_flows(runner.flows.all(), timezone.now()),
        **log_of_runner(request, runner),
        "transitions": Transition.objects.filter(subject="runner", subject_id=runner.pk)[:8],
        "commands": [
            curl(request, "Read this runner", "GET", f"runners/{name}/"),
            curl(request, "Move it", "POST", f"runners/{name}/move/", {"host": "…"}),
        ],
    }
    if file := file_of(request, context, {"log": LOG, "changes": RECENT_TRANSITIONS}, name):
        return file
    return render_page(request, "mirrors/runners/detail.html", context, section="runners", every=3)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def add_runner(request: HttpRequest) -> HttpResponse:
    form = RunnerForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            runner = services.create_runner(**form.cleaned_data, who=request.user.get_username())
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error("name", error.message)
        else:
            messages.success(request, f"{runner.name} is created. It starts with its first flow.")
            return redirect("runner", name=runner.name)
    return _form_page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def edit_runner(request: HttpRequest, name: str) -> HttpResponse:
    """The first POST shows what the edit restarts; the second one, with its digest, saves it."""
    runner = get_object_or_404(Runner, name=name)
    form = RunnerForm(request.POST or None, runner=runner)
    impact: Impact | None = None
    if request.method == "POST" and form.is_valid():
        try:
            impact = _impact(runner, form)
            if not impact.changes:
                messages.info(request, f"{name} was not changed.")
                return redirect("runner", name=name)
            if impact.agreed(request):
                _save(request, form, runner)
                return redirect("runner", name=name)
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
    return _form_page(request, form, runner, None if form.errors else impact)


def _wanted(form: RunnerForm) -> dict[str, Any]:
    return {name: form.cleaned_data[name] for name in _EDITABLE}


def _impact(runner: Runner, form: RunnerForm) -> Impact:
    changes = [
        Change(key, str(getattr(runner, key)), str(value))
        for key, value in _wanted(form).items()
        if value is not None and value != getattr(runner, key)
    ]
    restarts = services.restarts_of_update(runner=runner, **_wanted(form))
    return Impact.of(changes, restarts, calm=_calm(changes))


def _calm(changes: list[Change]) -> str:
    if all(change.name in ("pool", "auto_balance") for change in changes):
        return "It takes effect now."
    return "It takes effect at the runner's next start."


def _save(request: HttpRequest, form: RunnerForm, runner: Runner) -> None:
    services.update_runner(runner=runner, who=request.user.get_username(), **_wanted(form))
    for flow in runner.flows.all():
        tasks.reconcile_flow.delay_on_commit(flow.pk)
    messages.success(request, f"{runner.name} is saved.")


@require_POST
@needs(Right.ADMINISTER)
def move_runner(request: HttpRequest, name: str) -> HttpResponse:
    runner = get_object_or_404(Runner, name=name)
    host, who = clean(request.POST.get("host", "")), request.user.get_username()
    attempt(
        request,
        lambda: hosts.request_move(runner=runner, host=host, who=who),
        f"{host} takes {name} over within seconds.",
    )
    return redirect("runner", name=name)


@require_POST
@needs(Right.ADMINISTER)
def balance_pool(request: HttpRequest, name: str) -> HttpResponse:
    """Begin the first move of the pool's plan."""
    if attempt(
        request,
        lambda: moves.request_next_move(pool=name, who=request.user.get_username()),
        "The flow moves when the process of its new runner is ready.",
    ):
        tasks.balance_pools.delay_on_commit()
    return redirect("runners")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def drain_host(request: HttpRequest, name: str) -> HttpResponse:
    """GET shows what becomes of each runner; POST drains."""
    get_object_or_404(Host, name=name)
    if request.method == "POST":
        attempt(
            request,
            lambda: hosts.drain(name=name, who=request.user.get_username()),
            f"{name} accepts no new runner and hands its own over, one after the other.",
        )
        return redirect("runners")
    found = hosts.preview_drain(name=name)
    sentences = [f"{one.runner}: {one.reason}" for one in found[:_SHOWN_HANDOVERS]]
    if len(found) > _SHOWN_HANDOVERS:
        sentences.append(f"And {len(found) - _SHOWN_HANDOVERS} more runners.")
    context = {
        "title": f"Drain {name}",
        "verb": f"Drain {name}",
        "sentences": [
            f"{name} accepts no runner from now on. Its runners move one after the other, and the "
            "flows of one runner pause while it moves.",
            *(sentences or [f"{name} serves no runner now."]),
            "The drain lasts until a person ends it. Nothing moves back.",
        ],
        "action": request.path,
        "back": reverse("runners"),
    }
    return render_page(request, "confirm.html", context, section="runners")


@require_POST
@needs(Right.ADMINISTER)
def end_drain(request: HttpRequest, name: str) -> HttpResponse:
    get_object_or_404(Host, name=name)
    attempt(
        request,
        lambda: hosts.end_drain(name=name, who=request.user.get_username()),
        f"{name} takes runners again. Nothing moves back.",
    )
    return redirect("runners")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def delete_runner(request: HttpRequest, name: str) -> HttpResponse:
    """GET shows the confirmation; POST deletes, or retires a runner whose process must end."""
    runner = get_object_or_404(Runner, name=name)
    error = ""
    if request.method == "POST":
        try:
            gone = services.delete_runner(runner=runner, who=request.user.get_username())
        except UnderstudyError as refusal:
            error = refusal.message
        else:
            messages.success(
                request,
                f"{name} is deleted." if gone else f"{name} is deleted when its process has ended.",
            )
            return redirect("runners")
    context = {
        "title": f"Delete {name}",
        "verb": f"Delete {name}",
        "sentences": [
            "Its process ends, and Understudy forgets its settings. Its log directory on "
            f"{runner.host or 'its host'} stays, and so does the history of its jobs."
        ],
        "action": request.path,
        "back": f"/runners/{name}/",
        "error": error,
    }
    status = 409 if error else 200
    return render_page(request, "confirm.html", context, section="runners", status=status)


def _form_page(
    request: HttpRequest,
    form: RunnerForm,
    runner: Runner | None = None,
    impact: Impact | None = None,
) -> HttpResponse:
    form.mark_fields()
    context = {"form": form, "runner": runner, "impact": impact}
    status = 422 if form.errors else 200
    return render_page(
        request, "mirrors/runners/form.html", context, section="runners", status=status
    )
