"""The overview page: health, data loss, flows by trouble, worst topics, component health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.audit import RECENT_TRANSITIONS
from mirrors.models import Cluster, Runner, Sighting, needs
from mirrors.models.account import total_columns, total_reader
from mirrors.models.drills.readiness import with_readiness
from mirrors.models.flow_queries import flows_with_lag, labelled_flows, worst_groups, worst_topics
from mirrors.views.drills.readiness import mark_proof
from mirrors.views.heartbeats import direction
from mirrors.views.page import mark_cluster, mark_flow, render_page
from mirrors.views.tables import file_of, fold, is_file
from monitoring.domain.overview.data_loss import FlowSummary
from monitoring.domain.overview.summary import Summary, is_stale, summarize
from monitoring.lists import (
    COMPONENTS,
    FLOWS_BY_TROUBLE,
    RPO_CURVE,
    WORST_GROUPS,
    WORST_TOPICS,
)
from monitoring.models import MetricsPush
from monitoring.overview import problems as content
from monitoring.overview.components import components_of, health_of
from monitoring.overview.rpo_chart import rpo_chart, set_trends

LISTS = {
    "flows": FLOWS_BY_TROUBLE,
    "topics": WORST_TOPICS,
    "groups": WORST_GROUPS,
    "whose": COMPONENTS,
    "curve": RPO_CURVE,
    "changes": RECENT_TRANSITIONS,
}

_SUMMARIZED = (
    "pk",
    "label",
    "source__alias",
    "target__alias",
    "observed_state",
    "reason",
    "as_of",
    "source__reachable",
    "target__reachable",
    "account__worst_topic",
)
ROWS = 25
ALARMS = 3
# This many of the topics furthest behind are read, and groups that read these; few are shown.
WORST, WORST_SHOWN = 15, 5
COMPONENTS_SHOWN = 30
# A process reports every few seconds; after this time without a report it is missing.
MISSING_AFTER = timedelta(seconds=45)
# When figures are stale, a component of Understudy is suspected first.
MISSING_SOON_AFTER = timedelta(seconds=20)
ENGINE = {"beat": "Celery beat", "reconcile worker": "Reconciler", "worker": "Celery worker"}
# Stores history and sends alerts; without it flows still copy and these figures are still read.
WATCHER = {"watcher": "Alert evaluator"}


@require_safe
@needs(Right.VIEW)
def overview(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    whole = is_file(request)
    context = _context(now, whole=whole)
    if whole and (file := file_of(request, context, LISTS, "overview")):
        return file
    return render_page(
        request, "monitoring/overview/page.html", context, section="overview", every=3
    )


def _context(now: datetime, *, whole: bool) -> dict[str, Any]:
    """`whole` for a file: all flows, and all of the worst topics that were read."""
    alerts = content.firing_alerts(now)
    most_severe = content.most_severe_by_flow(alerts)
    summaries = _flow_summaries(most_severe)
    clusters = [mark_cluster(cluster) for cluster in Cluster.objects.select_related("sweep")]
    engine, summary = _summarized(summaries, now)
    shown = summary.ordered if whole else summary.ordered[:ROWS]
    flows = _table_rows([one.key for one in shown], now)
    topics, transitions = worst_topics(WORST), list(content.recent_transitions())
    sentences = _sentences(summary, flows, alerts, most_severe)
    beats = [direction(flow, now) for flow in flows]
    whose = components_of(
        clusters, beats, Runner.objects.all(), engine, MetricsPush.objects.first(), now
    )
    return {
        **sentences,
        "now": now,
        "engine": engine,
        "summary": summary,
        "proof": content.proof_of_standbys(summaries, flows, now),
        "flows": flows,
        **_folded(flows, sentences["troubles"]),
        "more": max(0, len(summaries) - ROWS),
        "worst": topics if whole else topics[:WORST_SHOWN],
        "groups": worst_groups(topics, WORST if whole else WORST_SHOWN),
        "transitions": transitions,
        "chart": rpo_chart(flows, transitions, now),
        "clusters": clusters,
        "health": health_of(whose, are_all=len(beats) == len(summaries)),
        "whose": whose if whole else whose[:COMPONENTS_SHOWN],
        "more_whose": 0 if whole else max(0, len(whose) - COMPONENTS_SHOWN),
    }


def _folded(flows: list[Any], troubles: list[content.ProblemRow]) -> dict[str, Any]:
    """The rows of the table: those that need a look, and the healthy ones folded below them.

    A reason that the page states above is not repeated in its row.
    """
    stated = {row.flow.pk for row in troubles}
    for flow in flows:
        flow.reason_above = flow.pk in stated
    rows, healthy = fold(
        flows, lambda flow: flow.shown_state == "running" and flow.pk not in stated
    )
    return {"rows": rows, "healthy": healthy} if stated else {"rows": flows, "healthy": []}


def _summarized(
    summaries: Sequence[FlowSummary], now: datetime
) -> tuple[list[dict[str, Any]], Summary]:
    """The states of our processes, and the summary of all flows."""
    engine = _processes(
        now, MISSING_SOON_AFTER if _all_figures_are_stale(summaries, now) else MISSING_AFTER
    )
    silent = [
        part["label"]
        for part in engine
        if part["state"] == "missing" and part["label"] in ENGINE.values()
    ]
    return engine, summarize(summaries, now, silent)


def _sentences(
    summary: Summary,
    flows: list[Any],
    alerts: list[content.FiringAlert],
    most_severe: Mapping[int, content.FiringAlert],
) -> dict[str, Any]:
    """The troubles and the alerts."""
    loudest = [alarm for alarm in alerts if alarm.alert.severity != "info"] or alerts
    return {
        "troubles": content.problem_rows(summary.troubles, flows, most_severe),
        "firing": len(alerts),
        "loudest": loudest[:ALARMS],
    }


def _flow_summaries(most_severe: Mapping[int, content.FiringAlert]) -> list[FlowSummary]:
    """Summary of every flow: one query, without whole rows of it or its clusters."""
    read = total_reader()
    rows = labelled_flows().order_by().values_list(*_SUMMARIZED, *total_columns("account__"))
    found = []
    for row in rows:
        key, name, source, target, state, reason, as_of, source_up, target_up, worst, *owes = row
        alarm = most_severe.get(key)
        found.append(
            # By position: with names, thousands of them take three times as long.
            FlowSummary(
                name,
                source,
                state,
                target,
                key,
                reason,
                read(owes),
                worst or "",
                as_of,
                source_up is False,
                target_up is False,
                "" if alarm is None else alarm.alert.severity,
                "" if alarm is None else alarm.text,
            )
        )
    return found


def _table_rows(keys: list[int], now: datetime) -> list[Any]:
    """Rows of the table, in the order of the keys."""
    rows = {
        flow.pk: flow
        for flow in with_readiness(flows_with_lag(), now)
        .select_related("heartbeat")
        .filter(pk__in=keys)
    }
    found = [mark_proof(mark_flow(rows[key], now), now) for key in keys if key in rows]
    set_trends(found, now)
    return found


def _all_figures_are_stale(summaries: Iterable[FlowSummary], now: datetime) -> bool:
    """Whether every active flow is stale: one alone points to its runner, all to the reconciler."""
    stale = [is_stale(one, now) for one in summaries if one.state in {"running", "degraded"}]
    return bool(stale) and all(stale)


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
