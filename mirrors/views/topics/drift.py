"""The page of one drift finding, with the form for the decision: accept, fix or ignore."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.domain.formatting import arrow
from mirrors.domain.topics.drift import CHOICES
from mirrors.models import Drift, needs
from mirrors.services.topics import drift
from mirrors.views.page import curl, decide_on, render_page

# Choices for how long a decision holds.
DAYS = (1, 7, 30, 90, 365)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def show_drift(request: HttpRequest, pk: int, finding: int) -> HttpResponse:
    """GET shows the values and the effect of each choice; POST is the decision."""
    rows = Drift.objects.select_related("flow__source", "flow__target").filter(flow=pk)
    found = get_object_or_404(rows, pk=finding)
    if request.method != "POST":
        return _page(request, found)
    who, now = request.user.get_username(), timezone.now()

    def decide(choice: str, why: str, shown: str) -> None:
        until = None if choice == "fix" else _until(request.POST.get("days", ""), now)
        drift.decide(
            finding=found, choice=choice, who=who, why=why, until=until, shown=shown, now=now
        )

    def page(error: str, status: int) -> HttpResponse:
        return _page(request, found, error, status)

    return decide_on(request, found, choices=CHOICES, decide=decide, page=page, part="drift")


def _until(days: str, now: datetime) -> datetime | None:
    """The end of the decision; None for no end, which only `accept` allows."""
    return now + timedelta(days=int(days)) if days in {str(count) for count in DAYS} else None


def _page(request: HttpRequest, found: Drift, error: str = "", status: int = 200) -> HttpResponse:
    body = {"choice": "accept", "reason": "…", "digest": drift.digest_of(found)}
    path = f"flows/{found.flow_id}/drift/{found.pk}/decide/"
    context = {
        "finding": found,
        "flow": found.flow,
        "title": f"Drift in {found} of {arrow(found.flow.name)}",
        "choices": list(_choices(found).items()),
        "days": DAYS,
        "digest": body["digest"],
        "is_open": found.closed_at is None,
        "error": error,
        "commands": [curl(request, "Decide over REST", "POST", path, body)],
    }
    return render_page(
        request, "mirrors/topics/drift.html", context, section="flows", status=status
    )


def _choices(found: Drift) -> dict[str, str]:
    """The effect of each choice."""
    target = found.flow.target.alias
    effects = {
        "accept": "The value stays, permanently or until the time below. Another change is a "
        "new finding.",
        "ignore": "Changes are neither reported nor reverted until the time below.",
    }
    if found.kind == "deleted topic":
        effects["fix"] = (
            f"The topic is created again on {target}, empty. Each partition stops with data loss, "
            "until a person decides what is replicated."
        )
    elif found.kind == "deleted schema":
        effects["fix"] = f"A worker registers the schema in the registry of {target} again now."
    elif found.kind not in ("partitions", "foreign schema"):
        effects["fix"] = f"A worker restores the flow's value on {target} now."
    return effects
