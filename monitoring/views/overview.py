"""The overview: one sentence, the flows by trouble, where it is worst, what changed, us or them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.models import Cluster, Role, Runner, Sighting, Transition, needs
from mirrors.models.reading import flows_with_lag, worst_topics
from mirrors.views.readiness import mark_proofs
from mirrors.views.render import render_page
from mirrors.views.shared import mark_cluster, mark_flow
from monitoring.domain.summary import FlowPicture, by_trouble, summarise
from monitoring.models import Alert, AlertState

ROWS = 25
# Each shows a sign of life every few seconds; this silent, it counts as gone.
GONE_AFTER = timedelta(seconds=45)
ENGINE = {"beat": "Celery beat", "reconcile worker": "Reconciler", "worker": "Celery worker"}
# Keeps history and tells of alerts; without it copying and these figures go on.
WATCHER = {"watcher": "Watcher of alerts"}


@require_safe
@needs(Role.VIEWER)
def overview(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    flows = {flow.label: mark_flow(flow, now) for flow in flows_with_lag()}
    pictures = [_picture(flow) for flow in flows.values()]
    ordered = [flows[picture.name] for picture in by_trouble(pictures, now)]
    engine = _engine(now)
    silent = [
        part["label"]
        for part in engine
        if part["state"] == "missing" and part["label"] in ENGINE.values()
    ]
    summary = summarise(pictures, now, silent)
    mark_proofs(ordered[:ROWS], now)
    context = {
        "summary": summary,
        "troubles": [(flows[item.flow], item.sentence) for item in summary.troubles],
        "firing": Alert.objects.filter(state=AlertState.FIRING).count(),
        "flows": ordered[:ROWS],
        "more": max(0, len(ordered) - ROWS),
        "worst": worst_topics(ordered) if ordered else [],
        "transitions": Transition.objects.exclude(subject__in=["job", "clustertest"])[:8],
        "clusters": [
            mark_cluster(cluster) for cluster in Cluster.objects.select_related("sweep")[:20]
        ],
        "runners": Runner.objects.all()[:10],
        "engine": engine,
    }
    return render_page(request, "monitoring/overview.html", context, section="overview", every=3)


def _picture(flow: Any) -> FlowPicture:
    return FlowPicture(
        name=flow.label,
        source=flow.source.alias,
        state=flow.observed_state,
        reason=flow.reason,
        offset_lag=flow.offset_lag,
        time_lag_ms=flow.time_lag_ms if flow.offset_lag else 0,
        worst_topic=flow.worst_topic or "",
        as_of=flow.as_of,
    )


def _engine(now: datetime) -> list[dict[str, Any]]:
    """Our own processes; one that was never seen is shown as missing, not left out."""
    last = {row.kind: row for row in Sighting.objects.order_by("seen_at")}
    return [
        {
            "label": label,
            "state": "running" if _works(last.get(kind), now) else "missing",
            "seen_at": last[kind].seen_at if kind in last else None,
        }
        for kind, label in (ENGINE | WATCHER).items()
    ]


def _works(sighting: Sighting | None, now: datetime) -> bool:
    return sighting is not None and now - sighting.seen_at <= GONE_AFTER
