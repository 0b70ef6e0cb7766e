"""The facts that alert rules are evaluated on, of every flow and runner.

The number of queries does not depend on the number of flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, OuterRef, Subquery

from mirrors.domain.account.partition import BLOCKING
from mirrors.domain.account.sentences import blocked_text
from mirrors.domain.audit.actors import ActorKind
from mirrors.domain.flows.schedule import RunSchedule
from mirrors.domain.settings.flow_control import COMPARE_SCHEDULE, WINDOW
from mirrors.domain.sync.tasks import CHECKPOINTS
from mirrors.models import (
    ConflictReport,
    DutyRun,
    Flow,
    FlowAccount,
    FlowTopic,
    Gap,
    HeartbeatState,
    Runner,
    Transition,
)
from mirrors.models.account import dead_letters_by_flow
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import DesiredState
from mirrors.models.gaps import GapState
from mirrors.models.schemas import schema_problem_of, with_schemas
from mirrors.services.comparison.conflicts import newest_reports
from mirrors.services.comparison.verified import verified_since
from mirrors.services.gaps import foreign_records
from monitoring.domain.alerts.rules import FlowFacts, ForecastFacts, RunnerFacts, VerificationFacts
from monitoring.domain.costs import MonthCost, budget_sentence
from monitoring.domain.epoch_time import milliseconds, moment
from monitoring.domain.forecasts.retention import RetentionRisk, describe_risk
from monitoring.forecasts import flow_outlook, usage
from monitoring.models import ClusterSweep, Feed, FlowOutlook, TransferPrice

_STORED_FIELDS = ("as_of", "offset_lag", "loses_at", "held_since")


def flow_facts(now: datetime) -> Iterator[tuple[Any, FlowFacts]]:
    """Each flow with its facts."""
    feeds = {feed.flow_id: feed for feed in Feed.objects.all()}
    gaps, blocked = _open_gaps(), blocked_topics()
    reports = {report.flow_id: report for report in newest_reports()}
    beats = {row.flow_id: row for row in HeartbeatState.objects.all()}
    seen = {row.flow_id: row for row in FlowOutlook.objects.defer("tracks", "held")}
    # Thousands of flows have a few clusters: each is read once, not joined to every flow.
    rows = flows_with_lag().select_related(None).select_related("account")
    rows = with_schemas(rows).prefetch_related("source", "target", "runner")
    flows = list(rows.annotate(checkpoint_at=_last_checkpoints()))
    letters = dead_letters_by_flow()
    windows, verified = _windows(flows, now), verified_since()
    foreign = foreign_records.find_ongoing(now=now)
    has_budget = TransferPrice.objects.filter(monthly_budget__isnull=False).exists()
    costs = usage.costs(flows, now) if has_budget else {}
    for flow in flows:
        began_at, catches_up_until = windows.get(flow.pk, (None, None))
        feed, beat = feeds.get(flow.pk), beats.get(flow.pk)
        rejected, rejected_at = letters.get(flow.pk, (0, None))
        writes = foreign.get(flow.pk)
        yield (
            flow,
            FlowFacts(
                name=flow.label,
                desired=flow.desired_state,
                state=flow.observed_state,
                reason=flow.reason,
                account=flow.account.total if hasattr(flow, "account") else None,
                blocked=blocked.get(flow.pk, ""),
                as_of=feed.stale_since if feed and feed.stale_since else flow.as_of,
                since=flow.since,
                began_at=began_at,
                catches_up_until=catches_up_until,
                moved_at=feed.moved_at if feed else None,
                lag_when_moved=feed.lag_when_moved if feed else None,
                gaps=gaps.get(flow.pk, 0),
                dead_letters=rejected,
                dead_letter_at=rejected_at,
                **_conflicts(reports.get(flow.pk)),
                failures=flow.attempt,
                outlook=forecast_of(seen.get(flow.pk), now),
                heartbeat_at=beat.seen_at if beat else None,
                heartbeats_on=_is_on(flow, "emit.heartbeats.enabled")
                and _is_on(flow, "heartbeats.replication.enabled"),
                checkpoint_at=flow.checkpoint_at,
                checkpoints_on=_is_on(flow, "emit.checkpoints.enabled"),
                schemas=schema_problem_of(flow, now),
                foreign_records=writes.records if writes else 0,
                foreign_writes=writes.sentence(flow.target.alias) if writes else "",
                verification=_verification(flow, verified.get(flow.pk)),
                **_budget(costs.get(flow.pk)),
            ),
        )


def _verification(flow: Flow, found: tuple[int, int, datetime] | None) -> VerificationFacts | None:
    """None for a flow without `compare.schedule`."""
    if COMPARE_SCHEDULE not in flow.properties:
        return None
    partitions, never, since = found or (0, 0, None)
    why_not = ""
    if str(flow.properties.get("skip.replicated", "false")).strip().lower() == "true":
        why_not = "has records of both directions, which cannot be compared in order"
    return VerificationFacts(partitions=partitions, never=never, since=since, why_not=why_not)


def _conflicts(report: ConflictReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    when = report.as_of or report.requested_at
    said = f"{report.sentence.rstrip('.')} (as of {when:%Y-%m-%d %H:%M} UTC)"
    return {"conflicts": report.differing or 0, "conflict_report": said}


def _budget(cost: MonthCost | None) -> dict[str, Any]:
    return {} if cost is None else {"budget_share": cost.share, "cost": budget_sentence(cost)}


def runner_facts(now: datetime) -> Iterator[tuple[Runner, RunnerFacts]]:
    wanted = Flow.objects.exclude(desired_state=DesiredState.STOPPED)
    needed = set(wanted.values_list("runner", flat=True))
    for runner in Runner.objects.all():
        health = runner.health(now)
        yield (
            runner,
            RunnerFacts(
                name=runner.name,
                state=health.state,
                needed=runner.pk in needed,
                reason=health.reason,
                moved_at=runner.moved_at,
                move_reason=runner.move_reason,
            ),
        )


def forecast_of(row: FlowOutlook | None, now: datetime) -> ForecastFacts | None:
    """The facts of the last sweep of the source; None without a sweep, or if it is too old."""
    if row is None or now - row.as_of > flow_outlook.OLD_AFTER:
        return None
    risks = [RetentionRisk(**one) for one in row.risks]
    return ForecastFacts(
        as_of=row.as_of,
        offset_lag=row.offset_lag,
        moved_at=row.moved_at,
        lag_when_moved=row.lag_when_moved,
        loses_at=row.loses_at,
        loss=describe_risk(risks[0], row.at_risk - 1, milliseconds(now)) if risks else "",
        held_since=row.held_since,
        held_records=row.held_records,
    )


def forecast_for_api(flow: Flow) -> dict[str, Any]:
    """The outlook for the REST API, with reason and age if stale; null before the first sweep."""
    row = FlowOutlook.objects.filter(flow=flow).defer("tracks").first()
    swept = ClusterSweep.objects.filter(cluster=flow.source).first()
    return {
        **{name: getattr(row, name, None) for name in _STORED_FIELDS},
        "at_risk": row.at_risk if row else 0,
        "held_records": row.held_records if row else 0,
        "stale_since": swept.stale_since if swept else None,
        "reason": swept.error if swept else "Its source was not scanned yet.",
        "risks": [
            {**one, "lost": RetentionRisk(**one).lost, "loses_at": moment(one["loses_at"])}
            for one in (row.risks if row else [])
        ],
        "held": [{**one, "since": moment(one["since"])} for one in (row.held if row else [])],
    }


def blocked_topics() -> dict[int, str]:
    """By flow, the topics that only a person can unblock, each with its reason."""
    rows = FlowTopic.objects.filter(account_state__in=BLOCKING).order_by("flow", "topic")
    found: dict[int, list[tuple[str, Any, str]]] = {}
    for flow, topic, state, reason in rows.values_list("flow", "topic", "account_state", "reason"):
        found.setdefault(flow, []).append((topic, state, reason))
    words = {flow: blocked_text(topics) for flow, topics in found.items()}
    hidden = FlowAccount.objects.exclude(not_visible="").values_list("flow", "not_visible")
    for flow, why in hidden:
        unseen = f"topics that are not visible: {why}"
        words[flow] = "; ".join(filter(None, (words.get(flow, ""), unseen)))
    return words


def _open_gaps() -> dict[int, int]:
    rows = Gap.objects.filter(state=GapState.OPEN, closed_at=None).order_by()
    return dict(rows.values_list("flow").annotate(Count("pk")))


def _windows(flows: list[Any], now: datetime) -> dict[int, tuple[datetime, datetime]]:
    """Of flows that a schedule started: when, and until when they may catch up on their backlog."""
    runs = {
        flow.pk: RunSchedule.of(flow.properties)
        for flow in flows
        if flow.desired_state == DesiredState.RUNNING and WINDOW in flow.properties
    }
    found: dict[int, tuple[datetime, datetime]] = {}
    if not runs:
        return found
    asked = Transition.objects.filter(
        subject="flow", subject_id=OuterRef("pk"), field="desired_state"
    ).order_by("-id")
    begun = Flow.objects.filter(pk__in=runs).annotate(
        asked_by=Subquery(asked.values("kind")[:1]), asked_at=Subquery(asked.values("when")[:1])
    )
    # A backlog from before a manual start was not planned: it counts at once.
    rows = begun.filter(asked_by=ActorKind.PROCESS).order_by()
    for flow, began in rows.values_list("pk", "asked_at"):
        until = runs[flow].catches_up_until(asked_at=milliseconds(began), now=milliseconds(now))
        if until is not None:
            found[flow] = began, moment(until)
    return found


def _last_checkpoints() -> Subquery:
    """When the checkpoints task last succeeded; rows of a flow are read from the newest on."""
    done = DutyRun.objects.filter(flow=OuterRef("pk"), duty=CHECKPOINTS.name, error="")
    return Subquery(done.exclude(ended_at=None).order_by("-slot").values("ended_at")[:1])


def _is_on(flow: Flow, key: str) -> bool:
    return str(flow.properties.get(key, "true")).strip().lower() != "false"
