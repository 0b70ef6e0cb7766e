"""Content of the overview page besides its rows: alerts with runbooks, drills, trends."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Max, Q, QuerySet
from django.urls import reverse

from mirrors.domain.drills.last_drill import LastDrills, proven_state
from mirrors.domain.formatting import BEHIND_AFTER_MS, duration
from mirrors.models import DrillRun, Transition
from mirrors.models.drills import ENDED_WELL
from mirrors.models.readiness import readiness_of
from monitoring.alerts import links
from monitoring.alerts.evaluation import is_silenced
from monitoring.domain.history import MINUTE
from monitoring.domain.overview import sparkline
from monitoring.domain.overview.data_loss import FlowSummary
from monitoring.domain.overview.drill_results import StandbyProof, drill_sentence
from monitoring.domain.overview.summary import FlowProblem
from monitoring.history import samples
from monitoring.models import Alert, AlertState, LagSample, Silence

_TREND = timedelta(hours=1)
_MOST_ALERTS = 200
_READ_ONLY_RUNS = ("comparison", "drillrun")
_RUNBOOKS = {
    "degraded": "flow_degraded",
    "backing_off": "flow_degraded",
    "failed": "flow_failed",
    "stale": "stale",
    "unknown": "stale",
    "lagging": "time_lag",
}
_LAGS = ("time_lag", "offset_lag")
_SEVERITIES = ("critical", "warning", "info")
_TONES = {"critical": "critical", "warning": "attention"}


@dataclasses.dataclass(frozen=True)
class FiringAlert:
    """A firing alert as the overview shows it; its links are built when they are rendered."""

    alert: Alert

    @property
    def text(self) -> str:
        """The sentence of the alert, except for lag, for which the page has fresher figures."""
        lags = self.alert.rule is not None and self.alert.rule.kind in _LAGS
        return "" if lags else self.alert.sentence

    @property
    def tone(self) -> str:
        return _TONES.get(self.alert.severity, "unknown")

    @property
    def page(self) -> str:
        return links.page_of(self.alert)

    @property
    def runbook(self) -> str:
        return links.runbook_of(self.alert)


def firing_alerts(now: datetime) -> list[FiringAlert]:
    """Firing alerts that are not silenced: by severity, then oldest first."""
    rows = Alert.objects.filter(state=AlertState.FIRING).select_related("rule", "flow")
    firing = list(rows.order_by("fired_at")[:_MOST_ALERTS])
    silences = Silence.objects.filter(starts_at__lte=now, ends_at__gt=now) if firing else ()
    active = list(silences)
    unsilenced = [one for one in firing if not is_silenced(one, active)]
    unsilenced.sort(key=lambda one: _SEVERITIES.index(one.severity))
    return [FiringAlert(one) for one in unsilenced]


def runbook_for(flow: Any, alarm: FiringAlert | None) -> str:
    """Runbook for a flow in trouble, also before an alert fires."""
    kind = _RUNBOOKS.get(flow.shown_state)
    if alarm is not None and alarm.runbook:
        return alarm.runbook
    return reverse("runbook", args=[kind]) if kind else ""


def most_severe_by_flow(found: Iterable[FiringAlert]) -> dict[int, FiringAlert]:
    """The most severe alert of each flow."""
    by_flow: dict[int, FiringAlert] = {}
    for alarm in found:
        if alarm.alert.flow_id is not None:
            by_flow.setdefault(alarm.alert.flow_id, alarm)
    return by_flow


@dataclasses.dataclass(frozen=True)
class ProblemRow:
    """A flow in trouble: its sentence, since when, its alert and its runbook."""

    flow: Any
    sentence: str
    since: datetime | None
    alarm: FiringAlert | None
    runbook: str


def problem_rows(
    troubles: Iterable[FlowProblem], flows: Iterable[Any], most_severe: Mapping[int, FiringAlert]
) -> list[ProblemRow]:
    """The flows in trouble come first in the table, so `flows` has their rows."""
    known = {flow.label: flow for flow in flows}
    found = []
    for item in troubles:
        if flow := known.get(item.flow):
            alarm = most_severe.get(flow.pk)
            fired = alarm.alert.fired_at if alarm else None
            since = flow.since if item.by_state else fired
            found.append(ProblemRow(flow, item.sentence, since, alarm, runbook_for(flow, alarm)))
    return found


def other_alerts(found: Iterable[FiringAlert], said: Iterable[ProblemRow]) -> list[FiringAlert]:
    """Alerts of flows that `problem_rows` does not list."""
    known = {one.flow.pk for one in said}
    return [alarm for alarm in found if alarm.alert.flow_id not in known]


def recent_transitions() -> QuerySet[Transition]:
    """The newest transitions, without intermediate steps of runs that change nothing."""
    rows = Transition.objects.exclude(subject__in=["job", "clustertest", "gap"])
    read_only = Q(subject__in=_READ_ONLY_RUNS) | Q(
        subject="failoverrun", name__startswith="simulation"
    )
    return rows.exclude(read_only, to_state__in=["queued", "running"])[:8]


def drill_summary(flows: Mapping[FlowSummary, int], now: datetime) -> str:
    """Results of drills over all flows except drafts, as one sentence."""
    passed = Q(state__in=ENDED_WELL)
    ended = DrillRun.objects.filter(ended_at__isnull=False).order_by().values_list("flow")
    last = {
        flow: (ended_at, passed_at)
        for flow, ended_at, passed_at in ended.annotate(
            last=Max("ended_at"), passed=Max("ended_at", filter=passed)
        )
    }
    old = timedelta(days=settings.UNDERSTUDY_PROVEN_DAYS)
    standbys = []
    for flow, key in sorted(flows.items(), key=lambda item: item[0].name):
        if flow.state == "draft":
            continue
        if key not in last:
            standbys.append(StandbyProof(flow.name, "never"))
            continue
        ended_at, passed_at = last[key]
        drills = LastDrills(
            passed_at=passed_at, ended_at=ended_at, ended_well=ended_at == passed_at
        )
        state, age = proven_state(drills, now=now, stale_after=old)
        standbys.append(StandbyProof(flow.name, state, age))
    return drill_sentence(standbys)


def set_trends(rows: Sequence[Any], now: datetime) -> None:
    """Set on each row its rate, its objective, its readiness score and its lag of the last hour."""
    keys = [flow.pk for flow in rows]
    rates = samples.rates_now(now=now)
    trends = _trends(keys, now)
    scores = readiness_of(rows, now)
    for flow in rows:
        _, flow.bytes_per_second = rates.get(flow.pk, (None, None))
        flow.ready = scores[flow.pk].score if flow.pk in scores else None
        objective = getattr(flow, "objectives", None)
        flow.rpo_seconds = objective.rpo_seconds if objective else None
        values = flow.trend_values = trends.get(flow.pk, [])
        flow.trend = sparkline.path(values, (flow.rpo_seconds or BEHIND_AFTER_MS / 1000) * 1000)
        flow.trend_says = (
            f"at most {duration(max((v for v in values if v is not None), default=0))}"
        )


def rpo_curve(
    rows: Sequence[Any], changed: Iterable[Transition], now: datetime
) -> dict[str, Any] | None:
    """The worst RPO of the rows of `set_trends`, with a mark for each transition."""
    start = MINUTE.slot(now - _TREND)
    recent = [change for change in changed if change.when >= start]
    objectives = [flow.rpo_seconds * 1000 for flow in rows if flow.rpo_seconds is not None]
    found = sparkline.sparkline(
        [flow.trend_values for flow in rows],
        least_top=BEHIND_AFTER_MS,
        objective=min(objectives, default=None),
        changes=[change.when for change in recent],
        start=start,
        span=_TREND,
    )
    if found is None:
        return None
    return {
        "drawn": found,
        "objective_ms": min(objectives, default=None),
        "ticks": list(zip(recent, found.ticks, strict=True)),
        "minutes": [
            {"at": start + at * MINUTE.step, "rpo_ms": value}
            for at, value in enumerate(found.values)
        ],
    }


def _trends(keys: Sequence[int], now: datetime) -> dict[int, list[float | None]]:
    """The age of the oldest record not copied, for each minute; None if unknown."""
    first = MINUTE.slot(now - _TREND)
    rows = LagSample.objects.filter(
        flow__in=keys, resolution=MINUTE.seconds, at__gte=first, at__lte=now
    ).order_by()
    known: dict[int, dict[int, float | None]] = defaultdict(dict)
    for flow, at, lag in rows.values_list("flow_id", "at", "time_lag_ms"):
        known[flow][int((at - first) / MINUTE.step)] = lag
    steps = range(int(_TREND / MINUTE.step))
    return {flow: [found.get(step) for step in steps] for flow, found in known.items()}
