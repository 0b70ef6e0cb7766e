"""The overview page: health, data loss, flows by trouble, worst topics, component health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.lists.audit import RECENT_TRANSITIONS
from mirrors.models import Cluster, Role, Runner, Sighting, needs
from mirrors.models.flow_queries import flows_with_lag, worst_groups, worst_topics
from mirrors.models.readiness import with_readiness
from mirrors.views.drills.readiness import mark_proof
from mirrors.views.heartbeats import direction
from mirrors.views.page import mark_cluster, mark_flow, render_page
from mirrors.views.tables import file_of, is_file
from monitoring import overview as content
from monitoring.domain.overview.data_loss import FlowSummary
from monitoring.domain.overview.summary import by_severity, is_stale, summarize
from monitoring.lists import (
    COMPONENTS,
    FLOWS_BY_TROUBLE,
    RPO_CURVE,
    WORST_GROUPS,
    WORST_TOPICS,
)

LISTS = {
    "flows": FLOWS_BY_TROUBLE,
    "topics": WORST_TOPICS,
    "groups": WORST_GROUPS,
    "whose": COMPONENTS,
    "curve": RPO_CURVE,
    "changes": RECENT_TRANSITIONS,
}


def component_health(context: dict[str, Any]) -> dict[str, Any]:
    """Clusters, heartbeats, runners and processes as rows of one table."""
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
    columns = [column.key for column in COMPONENTS.columns]
    return {"whose": [dict(zip(columns, part, strict=True)) for part in parts]}


ROWS = 25
ALARMS = 3
# This many of the topics furthest behind are read, and groups that read these; few are shown.
WORST, WORST_SHOWN = 15, 5
BEATS = 6
# A process reports every few seconds; after this time without a report it is missing.
MISSING_AFTER = timedelta(seconds=45)
# When figures are stale, a component of Understudy is suspected first.
MISSING_SOON_AFTER = timedelta(seconds=20)
ENGINE = {"beat": "Celery beat", "reconcile worker": "Reconciler", "worker": "Celery worker"}
# Stores history and sends alerts; without it copying and these figures go on.
WATCHER = {"watcher": "Watcher of alerts"}


@require_safe
@needs(Role.VIEWER)
def overview(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    whole = is_file(request)
    context = _context(now, whole=whole)
    if whole and (
        file := file_of(request, {**context, **component_health(context)}, LISTS, "overview")
    ):
        return file
    return render_page(
        request, "monitoring/overview/page.html", context, section="overview", every=3
    )


def _context(now: datetime, *, whole: bool) -> dict[str, Any]:
    """`whole` for a file: all flows, and all of the worst topics that were read."""
    alerts = content.firing_alerts(now)
    most_severe = content.most_severe_by_flow(alerts)
    keys = _flow_summaries(most_severe)
    clusters = [mark_cluster(cluster) for cluster in Cluster.objects.select_related("sweep")[:20]]
    ordered = [keys[summary] for summary in by_severity(list(keys), now)]
    flows = _table_rows(ordered if whole else ordered[:ROWS], now)
    topics, transitions = worst_topics(WORST), list(content.recent_transitions())
    return {
        **_sentences(keys, flows, alerts, most_severe, now),
        "now": now,
        "trust": content.drill_summary(keys, now),
        "flows": flows,
        "more": max(0, len(keys) - ROWS),
        "worst": topics if whole else topics[:WORST_SHOWN],
        "groups": worst_groups(topics, WORST if whole else WORST_SHOWN),
        "transitions": transitions,
        "curve": content.rpo_curve(flows, transitions, now),
        "clusters": clusters,
        "runners": Runner.objects.all()[:10],
        "beats": [direction(flow, now) for flow in flows[:BEATS]],
    }


def _sentences(
    keys: Mapping[FlowSummary, int],
    flows: list[Any],
    alerts: list[content.FiringAlert],
    most_severe: Mapping[int, content.FiringAlert],
    now: datetime,
) -> dict[str, Any]:
    """The summary, the troubles and the alerts, with the state of our processes."""
    engine = _processes(
        now, MISSING_SOON_AFTER if _all_figures_are_stale(keys, now) else MISSING_AFTER
    )
    silent = [
        part["label"]
        for part in engine
        if part["state"] == "missing" and part["label"] in ENGINE.values()
    ]
    summary = summarize(list(keys), now, silent)
    troubles = content.problem_rows(summary.troubles, flows, most_severe)
    return {
        "summary": summary,
        "engine": engine,
        "troubles": troubles,
        "alarms": content.other_alerts(alerts, troubles)[:ALARMS],
        "firing": len(alerts),
    }


def _flow_summaries(most_severe: Mapping[int, content.FiringAlert]) -> dict[FlowSummary, int]:
    """Summary of every flow with its key: one query."""
    return {
        FlowSummary(
            name=flow.label,
            source=flow.source.alias,
            target=flow.target.alias,
            state=flow.observed_state,
            reason=flow.reason,
            account=flow.account.total if hasattr(flow, "account") else None,
            worst_topic=flow.worst_topic or "",
            as_of=flow.as_of,
            source_unreachable=flow.source.reachable is False,
            target_unreachable=flow.target.reachable is False,
            severity=most_severe[flow.pk].alert.severity if flow.pk in most_severe else "",
            alert=most_severe[flow.pk].text if flow.pk in most_severe else "",
        ): flow.pk
        for flow in flows_with_lag()
    }


def _table_rows(keys: list[int], now: datetime) -> list[Any]:
    """Rows of the table, in the order of the keys."""
    rows = {
        flow.pk: flow
        for flow in with_readiness(flows_with_lag(), now)
        .select_related("heartbeat")
        .filter(pk__in=keys)
    }
    found = [mark_proof(mark_flow(rows[key], now), now) for key in keys if key in rows]
    content.set_trends(found, now)
    return found


def _all_figures_are_stale(summaries: Iterable[FlowSummary], now: datetime) -> bool:
    """Whether every active flow is stale: one alone points to its runner, all to the reconciler."""
    awaited = [summary for summary in summaries if summary.state in {"running", "degraded"}]
    return bool(awaited) and all(is_stale(summary, now) for summary in awaited)


def _processes(now: datetime, gone_after: timedelta) -> list[dict[str, Any]]:
    """Our processes; one that was never seen is listed as missing."""
    last = {row.kind: row for row in Sighting.objects.order_by("seen_at")}
    return [
        {
            "label": label,
            "state": "running" if _is_alive(last.get(kind), now, gone_after) else "missing",
            "seen_at": last[kind].seen_at if kind in last else None,
        }
        for kind, label in (ENGINE | WATCHER).items()
    ]


def _is_alive(sighting: Sighting | None, now: datetime, gone_after: timedelta) -> bool:
    return sighting is not None and now - sighting.seen_at <= gone_after
