"""Actions on a flow: pause, resume, stop and others; dangerous ones need a confirmation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from mirrors import tasks
from mirrors.domain.access.rights import ROLE_FOR, Right
from mirrors.domain.account.sentences import owed
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import arrow, count, duration
from mirrors.models import Flow, has_right, needs
from mirrors.models.access.grants import demand_here
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.flows import commands, settings
from mirrors.views.page import mark_flow, render_page


@dataclasses.dataclass(frozen=True)
class Action:
    """One action. `asks` are the sentences of its dialog; without any there is no dialog.

    `typed`: the dialog also requires the target's alias.
    """

    verb: str
    done: str
    call: Callable[..., Any]
    when: Callable[[Any], bool]
    right: Right = Right.OPERATE
    main: bool = False
    asks: tuple[str, ...] = ()
    typed: bool = False


def _has_desired_state(*states: str) -> Callable[[Any], bool]:
    return lambda flow: flow.desired_state in states


def _can_start(flow: Any) -> bool:
    return flow.desired_state == "stopped" or flow.observed_state in {"backing_off", "failed"}


def _delete(*, flow: Flow, who: str, why: str = "") -> None:
    settings.delete_flow(flow=flow, who=who)


ACTIONS: dict[str, Action] = {
    "start": Action(
        "Start", "Start requested for {name}.", commands.start_flow, _can_start, main=True
    ),
    "start_beside": Action(
        "Start beside other writers",
        "Start requested for {name}, beside other writers.",
        functools.partial(commands.start_flow, accept_other_writers=True),
        lambda flow: bool(flow.start_refusal),
        asks=(
            "Its last start was refused because another program writes the same remote topics on "
            "{target}. If you start it anyway, both write: consumers there read duplicates.",
            "Stop the other program, or take over from MirrorMaker 2, unless both must write. "
            "The history records who started it.",
        ),
        typed=True,
    ),
    "pause": Action(
        "Pause",
        "Pause requested for {name}.",
        commands.pause_flow,
        _has_desired_state("running"),
        main=True,
    ),
    "resume": Action(
        "Resume",
        "Resume requested for {name}.",
        commands.resume_flow,
        _has_desired_state("paused"),
        main=True,
    ),
    "restart": Action(
        "Restart",
        "Restart requested for {name}.",
        commands.restart_flow,
        _has_desired_state("running", "paused"),
    ),
    "stop": Action(
        "Stop",
        "Stop requested for {name}.",
        commands.stop_flow,
        _has_desired_state("running", "paused"),
        asks=(
            "The flow commits and leaves its runner. {target} receives nothing from {source} "
            "until it is started again. It then resumes where it stopped, as long as {source} "
            "still has those records.",
            "For a few minutes, pause it instead: it resumes faster.",
        ),
    ),
    "reverse": Action(
        "Reverse",
        "Stop requested for {name}, and start for the other direction.",
        commands.reverse_flow,
        lambda flow: True,
        asks=(
            "{name} stops, and {target}→{source} runs with the same settings. It is created if it "
            "does not exist. This moves no consumer or producer.",
            "Records that {name} has not replicated yet stay on {source} only.",
        ),
        typed=True,
    ),
    "delete": Action(
        "Delete",
        "{name} is deleted.",
        _delete,
        lambda flow: True,
        asks=(
            "The flow and its history are deleted. Topics, records and positions on {target} stay: "
            "a new flow for the same clusters resumes there.",
        ),
        right=Right.EDIT,
        typed=True,
    ),
}


def actions_of(request: HttpRequest, flow: Any) -> list[dict[str, Any]]:
    """The actions that apply to this flow now, and whether this person may use them."""
    return [
        {
            # It is to run already and waits for its next attempt.
            "label": "Retry" if name == "start" and flow.desired_state == "running" else act.verb,
            "link": reverse("flow-act", args=[flow.pk, name]),
            "visible": act.main,
            "primary": act.main and name != "pause",
            "asks": bool(act.asks),
            "allowed": has_right(request.user, act.right, flow),
            "role": ROLE_FOR[act.right],
        }
        for name, act in ACTIONS.items()
        if name != "delete" and act.when(flow)
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@needs(lambda given: ACTIONS[given["action"]].right)
def act_on_flow(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """GET shows the confirmation; POST carries the action out."""
    act = ACTIONS[action]
    flow = mark_flow(get_object_or_404(flows_with_lag(), pk=pk), timezone.now())
    if request.method != "POST":
        return _confirm_page(request, flow, action, act)
    if action == "reverse":
        demand_here(flow.opposite_subject)
    if act.typed and request.POST.get("typed", "").strip() != flow.target.alias:
        sentence = f"Type {flow.target.alias} exactly; nothing was changed."
        return _confirm_page(request, flow, action, act, sentence, 422)
    try:
        after = act.call(
            flow=flow, who=request.user.get_username(), why=request.POST.get("reason", "")[:500]
        )
    except UnderstudyError as error:
        if act.asks:
            return _confirm_page(request, flow, action, act, error.message, 409)
        messages.error(request, error.message)
        return redirect("flow", pk=pk)
    return _done(request, flow, act, after)


def _owed(flow: Any) -> str:
    account = getattr(flow, "account", None)
    return "unknown: the flow has not reported yet" if account is None else owed(account.total)


def _done(request: HttpRequest, flow: Flow, act: Action, after: Flow | None) -> HttpResponse:
    messages.success(request, act.done.format(name=arrow(flow.name)))
    if after is None:
        return redirect("flows")
    for changed in {flow.pk, after.pk}:
        tasks.reconcile_flow.delay_on_commit(changed)
    return redirect("flow", pk=after.pk)


def _confirm_page(
    request: HttpRequest, flow: Any, action: str, act: Action, error: str = "", status: int = 200
) -> HttpResponse:
    words = {
        "name": arrow(flow.name),
        "source": flow.source.alias,
        "target": flow.target.alias,
    }
    title = f"{act.verb} {words['name']}"
    sentences = [sentence.format(**words) for sentence in act.asks]
    if action == "delete" and flow.desired_state != "stopped":
        sentences.insert(0, "The flow is not stopped. Stop it before you delete it.")
    context = {
        "title": title,
        "verb": title,
        "sentences": sentences,
        "facts": [
            ("Not replicated yet", _owed(flow)),
            ("Oldest of them", duration(flow.time_lag_ms)),
            ("Topics", count(flow.copied)),
        ],
        "expected": flow.target.alias if act.typed else "",
        "asks_reason": action != "delete",
        "action": reverse("flow-act", args=[flow.pk, action]),
        "back": reverse("flow", args=[flow.pk]),
        "error": error,
    }
    return render_page(request, "confirm.html", context, section="flows", status=status)
