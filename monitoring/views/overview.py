"""The overview: one sentence, the flows by trouble, where it is worst, what changed, us or them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.models import Cluster, Role, Runner, Sighting, needs
from mirrors.models.flow_queries import flows_with_lag, worst_groups, worst_topics
from mirrors.models.readiness import with_readiness
from mirrors.views.drills.readiness import mark_proof
from mirrors.views.heartbeats import direction
from mirrors.views.page import mark_cluster, mark_flow, render_page
from mirrors.views.tables import CHANGES, Sheet, file_of, is_file
from monitoring import overview as first_screen
from monitoring.domain.overview.data_loss import FlowPicture
from monitoring.domain.overview.summary import by_trouble, is_stale, summarise

SHEETS = {
    "flows": Sheet(
        "flows",
        (
            "label",
            "shown_state",
            "offset_lag",
            "time_lag_ms",
            "rpo_seconds",
            "bytes_per_second",
            "ready",
            "proof.state",
            "proof.at",
            "since",
            "as_of",
            "reason",
        ),
    ),
    "topics": Sheet("worst", ("flow.name", "topic", "time_lag_ms", "offset_lag", "as_of")),
    "groups": Sheet("groups", ("flow.name", "group", "topic", "time_lag_ms", "offset_lag")),
    "whose": Sheet("whose", ("what", "name", "state", "seen_at", "reason")),
    "curve": Sheet("curve.minutes", ("at", "rpo_ms")),
    "changes": CHANGES,
}


def us_or_them(context: dict[str, Any]) -> dict[str, Any]:
    """Clusters, heartbeats, runners and our own processes as rows of one kind."""
    parts: list[tuple[str, str, str, datetime | None, str]] = [
        ("cluster", one.alias, one.seen, one.checked_at, one.reason) for one in context["clusters"]
    ]
    for beat in context["beats"]:
        heart = beat["heartbeat"]
        parts.append(("heartbeat", beat["flow"].label, beat["state"], heart.seen_at, heart.error))
    parts += [
        ("runner", one.name, one.health_now.state, one.seen_at, one.health_now.reason)
        for one in context["runners"]
    ]
    parts += [
        ("process", one["label"], one["state"], one["seen_at"], "") for one in context["engine"]
    ]
    parts.append(("process", "Database", "running", context["now"], ""))
    columns = SHEETS["whose"].columns
    return {"whose": [dict(zip(columns, part, strict=True)) for part in parts]}


ROWS = 25
ALARMS = 3
# This many of the topics furthest behind are read, and groups that read these; few are shown.
WORST, WORST_SHOWN = 15, 5
BEATS = 6
# Each shows a sign of life every few seconds; this silent, it counts as gone.
GONE_AFTER = timedelta(seconds=45)
# When figures are stale, a component of Understudy is suspected first.
GONE_SOON = timedelta(seconds=20)
ENGINE = {"beat": "Celery beat", "reconcile worker": "Reconciler", "worker": "Celery worker"}
# Stores history and sends alerts; without it copying and these figures go on.
WATCHER = {"watcher": "Watcher of alerts"}


@require_safe
@needs(Role.VIEWER)
def overview(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    whole = is_file(request)
    context = _context(now, whole=whole)
    if whole and (file := file_of(request, {**context, **us_or_them(context)}, SHEETS, "overview")):
        return file
    return render_page(
        request, "monitoring/overview/page.html", context, section="overview", every=3
    )


def _context(now: datetime, *, whole: bool) -> dict[str, Any]:
    """`whole` for a file: all flows, and of what is worst as much as was read."""
    alarms = first_screen.alarms(now)
    gravest = first_screen.gravest_by_flow(alarms)
    keys = _pictures(gravest)
    clusters = [mark_cluster(cluster) for cluster in Cluster.objects.select_related("sweep")[:20]]
    ordered = [keys[picture] for picture in by_trouble(list(keys), now)]
    flows = _in_full(ordered if whole else ordered[:ROWS], now)
    topics, transitions = worst_topics(WORST), list(first_screen.changes())
    return {
        **_said(keys, flows, alarms, gravest, now),
        "now": now,
        "trust": first_screen.trust_of(keys, now),
        "flows": flows,
        "more": max(0, len(keys) - ROWS),
        "worst": topics if whole else topics[:WORST_SHOWN],
        "groups": worst_groups(topics, WORST if whole else WORST_SHOWN),
        "transitions": transitions,
        "curve": first_screen.rpo_curve(flows, transitions, now),
        "clusters": clusters,
        "runners": Runner.objects.all()[:10],
        "beats": [direction(flow, now) for flow in flows[:BEATS]],
    }


def _said(
    keys: Mapping[FlowPicture, int],
    flows: list[Any],
    alarms: list[first_screen.Alarm],
    gravest: Mapping[int, first_screen.Alarm],
    now: datetime,
) -> dict[str, Any]:
    """The sentences, and what of our own processes makes some of them."""
    engine = _engine(now, GONE_SOON if _figures_stand(keys, now) else GONE_AFTER)
    silent = [
        part["label"]
        for part in engine
        if part["state"] == "missing" and part["label"] in ENGINE.values()
    ]
    summary = summarise(list(keys), now, silent)
    told = first_screen.told(summary.troubles, flows, gravest)
    return {
        "summary": summary,
        "engine": engine,
        "troubles": told,
        "alarms": first_screen.others(alarms, told)[:ALARMS],
        "firing": len(alarms),
    }


def _pictures(gravest: Mapping[int, first_screen.Alarm]) -> dict[FlowPicture, int]:
    """Of every flow what the summary and the order need, with its key: one query."""
    return {
        FlowPicture(
            name=flow.label,
            source=flow.source.alias,
            target=flow.target.alias,
            state=flow.observed_state,
            reason=flow.reason,
            account=flow.account.total if hasattr(flow, "account") else None,
            worst_topic=flow.worst_topic or "",
            as_of=flow.as_of,
            source_is_gone=flow.source.reachable is False,
            target_is_gone=flow.target.reachable is False,
            severity=gravest[flow.pk].alert.severity if flow.pk in gravest else "",
            alert=gravest[flow.pk].news if flow.pk in gravest else "",
        ): flow.pk
        for flow in flows_with_lag()
    }


def _in_full(keys: list[int], now: datetime) -> list[Any]:
    """The rows of the table, in the order of the keys."""
    rows = {
        flow.pk: flow
        for flow in with_readiness(flows_with_lag(), now)
        .select_related("heartbeat")
        .filter(pk__in=keys)
    }
    found = [mark_proof(mark_flow(rows[key], now), now) for key in keys if key in rows]
    first_screen.mark_trends(found, now)
    return found


def _figures_stand(pictures: Iterable[FlowPicture], now: datetime) -> bool:
    """Of all flows that should have some: one alone is its runner's, all are the reconciler's."""
    awaited = [picture for picture in pictures if picture.state in {"running", "degraded"}]
    return bool(awaited) and all(is_stale(picture, now) for picture in awaited)


def _engine(now: datetime, gone_after: timedelta) -> list[dict[str, Any]]:
    """Our own processes; one that was never seen is shown as missing, not left out."""
    last = {row.kind: row for row in Sighting.objects.order_by("seen_at")}
    return [
        {
            "label": label,
            "state": "running" if _works(last.get(kind), now, gone_after) else "missing",
            "seen_at": last[kind].seen_at if kind in last else None,
        }
        for kind, label in (ENGINE | WATCHER).items()
    ]


def _works(sighting: Sighting | None, now: datetime, gone_after: timedelta) -> bool:
    return sighting is not None and now - sighting.seen_at <= gone_after
