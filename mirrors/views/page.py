"""Render a page; REST calls to copy; marks of stale figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers

from mirrors.domain.account.sentences import unknown_part
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.formatting import BEHIND_AFTER_MS, OLD_AFTER, duration
from mirrors.models import Cluster
from mirrors.models.access.grants import showing
from mirrors.services.clock import milliseconds
from mirrors.services.clusters import EVERY

# Several checks of a cluster were missed.
_CHECKS_MISSING_AFTER = 5 * EVERY


def render_page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    section: str,
    every: int | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or only its live part for htmx, which reloads it after `every` seconds."""
    fragment = request.headers.get("HX-Request") == "true"
    context = {
        **context,
        "base": "fragment.html" if fragment else "base.html",
        "section": section,
        "every": every,
    }
    with showing():
        response = render(request, template, context, status=status)
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def attempt(request: HttpRequest, act: Callable[[], object], done: str = "") -> bool:
    """Do what a person requested; its refusal, or `done`, is the message of the next page."""
    try:
        act()
    except UnderstudyError as error:
        messages.error(request, error.message)
        return False
    if done:
        messages.success(request, done)
    return True


def decide_on(
    request: HttpRequest,
    finding: Any,
    *,
    choices: Collection[str],
    decide: Callable[[str, str, str], object],
    page: Callable[[str, int], HttpResponse],
    part: str,
) -> HttpResponse:
    """A posted decision: `decide` gets choice, reason and the digest of what the person saw.

    `page` shows the form again with a refusal; `part` is the flow's tab to return to.
    """
    choice, why = request.POST.get("choice", ""), request.POST.get("reason", "").strip()[:500]
    if choice not in choices or not why:
        return page("Choose a decision and give a reason. Both are recorded.", 422)
    try:
        decide(choice, why, request.POST.get("digest", "")[:64] or "none")
    except InvalidSettings as error:
        return page(error.message, 422)
    except UnderstudyError as error:
        finding.refresh_from_db()
        return page(error.message, 409)
    messages.success(request, f"{finding}: decision {choice} is recorded.")
    return redirect("flow-part", pk=finding.flow_id, part=part)


_STOPPED_STATES = {"draft", "paused", "stopped", "failed_over"}


def filter_of(
    field: str, label: str, values: Sequence[str], chosen: dict[str, str]
) -> dict[str, Any]:
    return {"field": field, "label": label, "values": values, "chosen": chosen.get(field, "")}


def curl(
    request: HttpRequest, does: str, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, str]:
    """One REST call as a curl command; `$TOKEN` stays a variable."""
    words = ["curl", "-sS", '-H "Authorization: Token $TOKEN"']
    if method != "GET":
        words.append(f"-X {method}")
    if body is not None:
        text = json.dumps(body).replace("'", "'\\''")
        words.append(f"-H 'Content-Type: application/json' -d '{text}'")
    words.append(f"'{request.build_absolute_uri(f'/api/v1/{path}')}'")
    return {"does": does, "text": " ".join(words)}


def mark_cluster(cluster: Cluster) -> Cluster:
    """Add the state of the last contact; unknown, with the reason, if nobody has checked lately."""
    seen = {None: "unknown", True: "reachable", False: "unreachable"}[cluster.reachable]
    if cluster.reachable and cluster.checked_at is not None:
        age = timezone.now() - cluster.checked_at
        if age > _CHECKS_MISSING_AFTER:
            seen = "unknown"
            cluster.reason = (
                f"It was last checked {duration(age / timedelta(milliseconds=1))} ago. Check that "
                "Celery beat and a Celery worker run."
            )
    cluster.seen = seen  # type: ignore[attr-defined]
    return cluster


def mark_flow(flow: Any, now: datetime) -> Any:
    """Add whether a flow's figures are stale, why one is missing, and the state to show.

    A flow is never green if its figures are stale, it is far behind, or its source is
    unreachable. Without a recent look at the source its time lag is a lower bound.
    """
    is_stopped = flow.observed_state in _STOPPED_STATES
    flow.stale = not is_stopped and flow.as_of is not None and now - flow.as_of > OLD_AFTER
    # The end of an unreachable source is unknown.
    flow.unsure = flow.stale or flow.source.reachable is False
    account = None if is_stopped else getattr(flow, "account", None)
    if account is not None and not account.total.holds_at(milliseconds(now)):
        flow.unsure = True
        flow.unknown_lags = account.total.as_of(milliseconds(now)).unknown_lags
    flow.shown_state = flow.observed_state
    if flow.observed_state == "running" and flow.stale:
        flow.shown_state = "stale"
    elif flow.observed_state == "running" and flow.source.reachable is False:
        flow.shown_state = "unknown"
        why = f"{flow.source.alias} does not respond, so its end offsets are unknown."
        flow.reason = flow.reason or why
    elif flow.observed_state == "running" and flow.offset_lag != 0:
        behind = (flow.time_lag_ms or 0) > BEHIND_AFTER_MS
        flow.shown_state = "lagging" if behind else "running"
    if flow.as_of is None:
        flow.why_no_lag = "the flow has not reported yet"
    elif flow.unknown_partitions:
        flow.why_no_lag = unknown_part(flow.account.total)
    return flow
