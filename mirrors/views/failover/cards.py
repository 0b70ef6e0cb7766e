"""The card of each flow on the failover page: what a failover would cost now, and its buttons."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Case, OuterRef, QuerySet, Subquery, Value, When
from django.http import HttpRequest

from mirrors.domain.account.sentences import owed_as_of
from mirrors.domain.failover.preconditions import EffectiveFence, effective_fence
from mirrors.domain.settings import failover as keys
from mirrors.models import FailoverRun, Flow
from mirrors.models.drills.readiness import readiness_of, with_readiness
from mirrors.models.failover import FailoverKind
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.clock import milliseconds
from mirrors.views.drills.readiness import mark_proof
from mirrors.views.page import mark_flow
from mirrors.views.tables import clean

CARDS = 24
FENCES = {
    "acl": "ACLs deny WRITE",
    "webhook": "a webhook",
    "command": "a command",
    "person": "a person",
    "none": "none",
}
_MANUAL = {"person", "none"}


def cards(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """One page of flows with the facts of their cards: flows that need attention come first."""
    rows = _rows(now)
    if search := clean(request.GET.get("flow", "")):
        rows = rows.filter(label__icontains=search)
    page = Paginator(rows, CARDS).get_page(request.GET.get("flows"))
    flows = [mark_proof(mark_flow(flow, now), now) for flow in page]
    ready = readiness_of(flows, now)
    for flow in flows:
        flow.ready = ready[flow.pk].score
        flow.fence = fence_of(flow, flow.seen_fence, simulated=flow.simulated_at is not None)
        flow.fence_label, flow.fence_state = _fence_badge(flow)
        flow.owed_text = owed_text(flow, now)
    page.object_list = flows
    return {"cards": page, "card_search": search}


def owed_text(flow: Any, now: datetime) -> str:
    """`at most 20 records (seen 2 s ago)`."""
    account = getattr(flow, "account", None)
    return "no figures yet" if account is None else owed_as_of(account.total, milliseconds(now))


def _fence_badge(flow: Any) -> tuple[str, str]:
    """The label of the fence and its state; whether ACLs can fence is known from a plan alone."""
    if flow.fence.how == "acl" and flow.seen_fence is None:
        return "unknown", "unknown"
    return FENCES[flow.fence.how], "attention" if flow.fence.how in _MANUAL else ""


def _rows(now: datetime) -> QuerySet[Any]:
    runs = FailoverRun.objects.filter(flow=OuterRef("pk")).order_by("-pk")
    planned = runs.filter(kind=FailoverKind.SIMULATION, plan__isnull=False, scope={}, groups=[])
    planned = planned.filter(ended_at__isnull=False)
    opened = runs.filter(ended_at=None)
    last = Case(When(observed_state="failed_over", then=Value(1)), default=Value(0))
    return (
        with_readiness(flows_with_lag(), now)
        .annotate(
            seen_fence=Subquery(planned.values("plan__fence")[:1]),
            simulated_at=Subquery(planned.values("ended_at")[:1]),
            open_run=Subquery(opened.values("pk")[:1]),
            open_kind=Subquery(opened.values("kind")[:1]),
            open_state=Subquery(opened.values("state")[:1]),
            is_last=last,
        )
        .order_by("is_last", "open_run", "-time_lag_ms", "label")
    )


def fence_of(flow: Flow, seen: Any, *, simulated: bool) -> EffectiveFence:
    """The fence that a run would use, as the newest simulation found it."""
    hooks = keys.hooks_of(flow.properties)
    return effective_fence(
        seen,
        how=str(hooks[keys.FENCE]),
        fallback=keys.fallback(hooks),
        source=flow.source.alias,
        simulated=simulated,
    )
