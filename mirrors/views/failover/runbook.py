"""Pages of switchovers and failovers: follow a run, control it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.account.sentences import amount
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.plan_drift import blast_radius
from mirrors.domain.failover.runbook.steps import BY_NAME
from mirrors.domain.formatting import arrow
from mirrors.models import FailoverRun, FailoverStep, needs
from mirrors.models.failover import OPEN_RUNS, FailoverState, WaitsFor
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.runbook.steps.fence import remaining_fence
from mirrors.services.failover.script import script_of
from mirrors.views.failover.result_tables import EXECUTION, stated
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import clean, file_of, first

SHOWN_ROWS = 200
# Commands by what the run waits for; an open run can also be aborted.
_COMMANDS = {
    WaitsFor.APPROVAL: ("approve",),
    WaitsFor.PAUSE: ("resume",),
    WaitsFor.PERSON: ("confirm", "resume"),
    WaitsFor.TROUBLE: ("resume", "confirm"),
}
_COMMAND_LABELS = {
    "approve": "Approve it",
    "confirm": "Confirm the step",
    "resume": "Resume",
    "pause": "Pause",
}
_SERVICES: dict[str, Callable[..., FailoverRun]] = {
    "approve": commands.approve,
    "confirm": commands.confirm,
    "pause": commands.pause,
    "resume": commands.resume,
}


def show_execution(request: HttpRequest, run: FailoverRun) -> HttpResponseBase:
    """The steps, live, and what a person has to do now."""
    is_open = run.state in OPEN_RUNS
    steps = [_shown(step) for step in run.steps.defer("result")]
    current = next((step for step in steps if step.row.state in ("waiting", "failed")), None)
    verbs, fence = _verbs(run, current), remaining_fence(run=run)
    waiting = current.row.name if current else ""
    result = run.result or {}
    places = result.get("partitions", [])
    context = {
        "run": run,
        "title": f"{run.kind.capitalize()} {arrow(run.flow.name)}",
        "is_open": is_open,
        "steps": steps,
        "verbs": verbs,
        "current": current.row if current else None,
        "undoing": bool(run.abort_asked_by) and is_open,
        "radius": blast_radius(run.plan) if run.plan else None,
        "loss": stated(run.plan, "loss"),
        "totals": result.get("totals"),
        "amounts": _amounts(run, result.get("totals") or {}),
        "places": sorted(places, key=lambda row: row["state"] in ("moved", "in_sync")),
        "more_places": len(places) - SHOWN_ROWS,
        "fences": [fence] if fence else [],
        "certificates": run.certificates.order_by("pk"),
        "commands": _commands(
            request, run, [verb for verb, _ in verbs], fence is not None, waiting
        ),
    }
    in_file = {**context, "steps": [step.row for step in steps]}
    if file := file_of(request, in_file, EXECUTION, f"{run.kind}-{run.pk}"):
        return file
    first(context, SHOWN_ROWS, "places")
    every = 1 if is_open else None
    return render_page(
        request, "mirrors/failover/runbook.html", context, section="failovers", every=every
    )


def _amounts(run: FailoverRun, totals: dict[str, Any]) -> dict[str, str]:
    """Records not replicated and duplicates: as predicted, and as counted afterwards."""
    found = {
        name: amount(totals.get(name), totals.get(f"{name}_certainty", "counted"))
        for name in ("loss", "re_reads")
    }
    if run.counted is None or totals.get("loss_certainty") == "counted":
        return found
    return found | {
        f"counted_{name}": amount(run.counted[name], run.counted[f"{name}_certainty"])
        for name in ("loss", "re_reads")
    }


def _commands(
    request: HttpRequest, run: FailoverRun, verbs: list[str], fenced: bool, step: str
) -> list[dict[str, str]]:
    path = f"failovers/{run.pk}/"
    found = [curl(request, "Read this run", "GET", path)]
    for verb in verbs:
        body = {"step": step} if verb == "confirm" else {}
        found.append(curl(request, _COMMAND_LABELS[verb], "POST", f"{path}{verb}/", body))
    if fenced:
        found.append(curl(request, "Lift its fence", "POST", f"{path}lift/", {"reason": "…"}))
    return found


@dataclasses.dataclass(frozen=True)
class ShownStep:
    """A step's row with its description in the runbook."""

    row: FailoverStep
    step: Any

    @property
    def state(self) -> tuple[str, str]:
        """The icon and color, and the label."""
        if self.row.undone_at:
            return "resting", "undone"
        words = {
            "running": ("working", "running"),
            "pending": ("pending", "to come"),
            "waiting": ("attention", "waits for you"),
        }
        return words.get(self.row.state, (self.row.state, self.row.state))


def _shown(row: FailoverStep) -> ShownStep:
    return ShownStep(row, BY_NAME.get(row.name))


def undo_sentences(run: FailoverRun) -> list[str]:
    """What an abort undoes now, the last step first."""
    begun = [row for row in run.steps.all() if row.acting_at and not row.undone_at]
    known = [(row, BY_NAME[row.name]) for row in reversed(begun) if row.name in BY_NAME]
    return [f"{row.does}: {step.undo}" for row, step in known if step.changes]


def _verbs(run: FailoverRun, current: ShownStep | None) -> list[tuple[str, str]]:
    names: tuple[str, ...]
    if run.abort_asked_by:
        names = ("resume",) if run.state == FailoverState.WAITING else ()
    elif run.state == FailoverState.WAITING:
        names = _COMMANDS[WaitsFor(run.waits_for)]
    elif run.state not in OPEN_RUNS:
        names = ()
    else:
        held = bool(run.pause_asked_by)
        names = () if held else ("pause",)
    words = dict(_COMMAND_LABELS)
    if current is not None and current.row.state == "failed":
        words |= {"resume": "Try again", "confirm": "Accept it as it is"}
        if not current.step.accepts:
            names = tuple(name for name in names if name != "confirm")
    return [(name, words[name]) for name in names]


@require_POST
@needs(lambda given: Right.APPROVE if given["verb"] == "approve" else Right.OPERATE)
def steer(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Approve, which approvers and admins may; confirm, pause or resume, which operators may."""
    run = get_object_or_404(FailoverRun.objects.select_related("simulation"), pk=pk)
    seen = {}
    if verb == "confirm":
        seen = {name: clean(request.POST.get(name, "")) for name in ("step", "state")}
    attempt(request, lambda: _SERVICES[verb](run=run, who=request.user.get_username(), **seen))
    return redirect("failover", pk=pk)


@require_POST
@needs(Right.OPERATE)
def lift(request: HttpRequest, pk: int) -> HttpResponse:
    """Lift the fence that an ended run left; the reason is recorded."""
    run, who = get_object_or_404(FailoverRun, pk=pk), request.user.get_username()
    why = request.POST.get("reason", "").replace("\x00", "")[:500]
    done = "A worker removes the ACLs."
    attempt(request, lambda: commands.request_fence_removal(run=run, who=who, why=why), done)
    return redirect("failover", pk=pk)


@require_safe
@needs(Right.VIEW)
def download_script(request: HttpRequest, pk: int) -> HttpResponse:
    rows = FailoverRun.objects.select_related("flow__source", "flow__target")
    run = get_object_or_404(rows, pk=pk)
    try:
        name, text = script_of(run=run)
    except UnderstudyError as error:
        messages.error(request, error.message)
        return redirect("failover", pk=pk)
    answer = HttpResponse(text, content_type="text/x-shellscript; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
