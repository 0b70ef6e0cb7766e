"""Readiness on pages: the terms with links to their fixes, and the badge of each flow."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from mirrors.domain.drills.readiness import Fix, Term
from mirrors.models import Drill, DrillRun, Flow
from mirrors.models.drills.readiness import proof_of, readiness_of, with_proof, with_readiness
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.drills.objectives import objectives_of
from mirrors.views.page import mark_flow

# The state whose icon and color a proof has.
PROOF_STATES = {"proven": "good", "stale": "unknown", "failed": "critical", "never": "unknown"}
_LABELS: dict[Fix, str] = {
    "jobs": "Look at its jobs",
    "cluster": "Look at the cluster",
    "groups": "Look at its groups",
    "gaps": "Decide on data loss",
    "duties": "Look at its sync tasks",
    "drill": "Schedule a drill",
    "drills": "Read why it failed",
    "objectives": "Set objectives",
    "topics": "Look at its topics",
    "source": "Look at the source",
    "drift": "Decide on drift",
    "simulation": "Simulate a failover",
    "schemas": "Look at its schemas",
}
_LAST_DRILLS = 5
# More rows are on the list of flows, which has filters.
FLOWS_LISTED = 50


@dataclasses.dataclass(frozen=True)
class ReadinessRow:
    term: Term
    label: str
    link: str


def mark_proof(flow: Any, now: datetime) -> Any:
    """Add the badge to a flow that `with_proof` has read."""
    flow.proof = proof_of(flow, now)
    flow.proof_state = PROOF_STATES[flow.proof.state]
    return flow


def first_flows(chosen: QuerySet[Flow], now: datetime) -> dict[str, Any]:
    """The first of the chosen flows as rows, and the number of all."""
    rows = with_proof(flows_with_lag()).filter(pk__in=chosen.values("pk")).order_by("pk")
    flows = [mark_proof(mark_flow(flow, now), now) for flow in rows[:FLOWS_LISTED]]
    total = chosen.count()
    return {"flows": flows, "total": total, "more": total - len(flows)}


def readiness_part(flow: Flow) -> dict[str, Any]:
    """The context of the tab."""
    now = timezone.now()
    row = with_readiness(flows_with_lag(), now).get(pk=flow.pk)
    found = readiness_of([row], now)[flow.pk]
    return {
        "readiness": found,
        "lines": [
            ReadinessRow(
                term,
                _LABELS[term.fix] if term.fix else "",
                fix_link(flow, term.fix) if term.fix else "",
            )
            for term in found.terms
        ],
        "objectives": objectives_of(flow=flow),
        "drills": DrillRun.objects.filter(flow=flow).select_related("certificate")[:_LAST_DRILLS],
        "schedules": Drill.objects.filter(flow=flow).order_by("pk"),
    }


def fix_link(flow: Flow, fix: Fix) -> str:
    if fix == "cluster":
        return reverse("cluster", args=[flow.target.alias])
    if fix == "source":
        return reverse("cluster", args=[flow.source.alias])
    if fix == "simulation":
        return f"{reverse('failovers')}?q={flow.source.alias}-%3E{flow.target.alias}"
    if fix == "drill":
        return f"{reverse('drill-add')}?flow={flow.pk}"
    if fix == "drills":
        return f"{reverse('drills')}?q={flow.source.alias}-%3E{flow.target.alias}"
    if fix == "objectives":
        return reverse("flow-objectives", args=[flow.pk])
    return reverse("flow-part", args=[flow.pk, fix])
