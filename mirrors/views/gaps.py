"""The page of one gap: its numbers, and the form for the decision: stop, accept or restart."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.domain.formatting import arrow, count, plural
from mirrors.domain.gaps.lost_ranges import UNCOPYABLE
from mirrors.models import Gap, needs
from mirrors.models.gaps import GapKind
from mirrors.services.gaps import lost_ranges
from mirrors.views.page import curl, decide_on, render_page

CHOICES = ("stop", "accept", "restart")
# What the numbers of these kinds mean on the target.
_LABELS_ON_TARGET: dict[str, str] = {
    GapKind.REMOTE_TRUNCATED: "lost",
    GapKind.POSITIONS_LOST: "copied",
}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW, write=Right.OPERATE)
def show_gap(request: HttpRequest, pk: int, gap: int) -> HttpResponse:
    """GET shows the numbers and the effect of each choice; POST is an operator's decision."""
    rows = Gap.objects.select_related("flow__source", "flow__target").filter(flow=pk)
    found = get_object_or_404(rows, pk=gap)
    if request.method != "POST":
        return _page(request, found)
    who, now = request.user.get_username(), timezone.now()

    def decide(choice: str, why: str, shown: str) -> None:
        lost_ranges.decide(gap=found, choice=choice, who=who, why=why, shown=shown, now=now)

    def page(error: str, status: int) -> HttpResponse:
        return _page(request, found, error, status)

    return decide_on(request, found, choices=CHOICES, decide=decide, page=page, part="gaps")


def _page(request: HttpRequest, gap: Gap, error: str = "", status: int = 200) -> HttpResponse:
    body = {"choice": "accept", "reason": "…", "digest": lost_ranges.digest_of(gap)}
    context = {
        "gap": gap,
        "flow": gap.flow,
        "title": f"Gap in {gap} of {arrow(gap.flow.name)}",
        "figures": _figures(gap),
        "choices": list(_choices(gap).items()),
        "digest": body["digest"],
        "is_open": gap.state == "open" and gap.closed_at is None,
        "error": error,
        "commands": [
            curl(
                request,
                "Decide over REST",
                "POST",
                f"flows/{gap.flow_id}/gaps/{gap.pk}/decide/",
                body,
            )
        ],
    }
    return render_page(request, "mirrors/gaps/detail.html", context, section="flows", status=status)


def _figures(gap: Gap) -> list[tuple[str, str]]:
    if gap.kind == GapKind.REMOTE_WRITTEN:
        first, last = lost_ranges.remote_offsets(gap)
        return [
            ("First foreign record", count(first)),
            ("Last foreign record", count(last)),
            ("Foreign records", count(gap.count)),
        ]
    source = [
        ("Position", count(gap.position)),
        ("Source begins at", count(gap.first_available)),
        ("Source ends at", count(gap.source_end)),
    ]
    if done := _LABELS_ON_TARGET.get(gap.kind):
        first, last = lost_ranges.remote_offsets(gap)
        return [
            *source,
            (f"First {done} on the target", count(first)),
            (f"Last {done} on the target", count(last)),
            (f"Offsets {done} there", count(gap.count)),
            ("First of them in the source", count(gap.first_lost)),
            ("Last of them in the source", count(gap.last_lost)),
        ]
    what = "lost"
    if gap.kind in UNCOPYABLE:
        what, source = gap.kind, source[:1]
    return [
        *source,
        (f"First {what}", count(gap.first_lost)),
        (f"Last {what}", count(gap.last_lost)),
        (f"Offsets {what}", count(gap.count)),
    ]


def _choices(gap: Gap) -> dict[str, str]:
    """The effect of each choice, with numbers."""
    facts, source, target = lost_ranges.facts_of(gap), gap.flow.source.alias, gap.flow.target.alias
    effects: dict[str, str] = {
        "stop": f"{gap} is not replicated; all other partitions continue.",
    }
    is_uncopyable = facts.kind in UNCOPYABLE
    if is_uncopyable:
        effects["stop"] = (
            f"{gap} waits and retries until the target accepts it; all others continue."
        )
    elif facts.first is None:
        return effects
    if facts.accepted_at is not None:
        lost = "" if facts.count is None else f" {count(facts.count)} offsets are skipped."
        new_map = ""
        if gap.kind == GapKind.REMOTE_TRUNCATED:
            lost = f" The {count(facts.count)} offsets that {target} lost are not replicated again."
            new_map = " A new offset map begins there."
        if gap.kind == GapKind.POSITIONS_LOST:
            lost = f" {count(facts.count)} offsets of {target} are replicated again."
            new_map = " A new offset map begins there."
        if is_uncopyable:
            lost = f" Skipped permanently: {plural(facts.count or 0, 'offset')}."
        effects["accept"] = (
            f"Replication resumes at offset {count(facts.accepted_at)} of {source}.{lost} "
            f"Records on {target} stay.{new_map}"
        )
    if is_uncopyable:
        return effects
    effects["restart"] = (
        f"The partition restarts at offset {count(facts.first)} of {source}. Records on "
        f"{target} stay, so records that both sides still have become duplicates. "
        "Group offsets are translated by the new copy only."
    )
    return effects
