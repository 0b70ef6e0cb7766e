"""What the first screen adds to its rows and sentences: alerts with what to do, trust, trends."""

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
from monitoring.domain.lag import MINUTE
from monitoring.domain.overview import sparkline
from monitoring.domain.overview.data_loss import FlowPicture
from monitoring.domain.overview.drill_results import Standby, trust
from monitoring.domain.overview.summary import Trouble
from monitoring.history import samples
from monitoring.models import Alert, AlertState, LagSample, Silence

_TREND = timedelta(hours=1)
_MOST_ALERTS = 200
_HARMLESS = ("comparison", "drillrun")
_RUNBOOKS = {
    "degraded": "flow_degraded",
    "backing_off": "flow_degraded",
    "failed": "flow_failed",
    "stale": "stale",
    "unknown": "stale",
    "lagging": "time_lag",
}
_LAGS = ("time_lag", "offset_lag")
_GRAVEST = ("critical", "warning", "info")
_TONES = {"critical": "critical", "warning": "attention"}


@dataclasses.dataclass(frozen=True)
class Alarm:
    """An alert that fires, as the first screen says it; its links are made where it is shown."""

    alert: Alert

    @property
    def news(self) -> str:
        """What the page does not know fresher itself."""
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


def alarms(now: datetime) -> list[Alarm]:
    """What fires and is not silenced: the gravest first, of each the oldest."""
    rows = Alert.objects.filter(state=AlertState.FIRING).select_related("rule", "flow")
    firing = list(rows.order_by("fired_at")[:_MOST_ALERTS])
    silences = Silence.objects.filter(starts_at__lte=now, ends_at__gt=now) if firing else ()
    now_silent = list(silences)
    loud = [one for one in firing if not is_silenced(one, now_silent)]
    loud.sort(key=lambda one: _GRAVEST.index(one.severity))
    return [Alarm(one) for one in loud]


def runbook_for(flow: Any, alarm: Alarm | None) -> str:
    """What to do about a flow in trouble, also before an alert fires."""
    kind = _RUNBOOKS.get(flow.shown_state)
    if alarm is not None and alarm.runbook:
        return alarm.runbook
    return reverse("runbook", args=[kind]) if kind else ""


def gravest_by_flow(found: Iterable[Alarm]) -> dict[int, Alarm]:
    """The first of each flow."""
    by_flow: dict[int, Alarm] = {}
    for alarm in found:
        if alarm.alert.flow_id is not None:
            by_flow.setdefault(alarm.alert.flow_id, alarm)
    return by_flow


@dataclasses.dataclass(frozen=True)
class Told:
    """A flow in trouble with its sentence, since when it is so, and what to do."""

    flow: Any
    sentence: str
    since: datetime | None
    alarm: Alarm | None
    runbook: str


def told(
    troubles: Iterable[Trouble], flows: Iterable[Any], gravest: Mapping[int, Alarm]
) -> list[Told]:
    """What is in trouble stands first in the table, so its rows are there."""
    known = {flow.label: flow for flow in flows}
    found = []
    for item in troubles:
        if flow := known.get(item.flow):
            alarm = gravest.get(flow.pk)
            fired = alarm.alert.fired_at if alarm else None
            since = flow.since if item.by_state else fired
            found.append(Told(flow, item.sentence, since, alarm, runbook_for(flow, alarm)))
    return found


def others(found: Iterable[Alarm], said: Iterable[Told]) -> list[Alarm]:
    """Those that speak of no flow that the first sentences speak of already."""
    known = {one.flow.pk for one in said}
    return [alarm for alarm in found if alarm.alert.flow_id not in known]


def changes() -> QuerySet[Transition]:
    """The newest, without the steps that a run takes on its way that touches nothing real."""
    rows = Transition.objects.exclude(subject__in=["job", "clustertest", "gap"])
    harmless = Q(subject__in=_HARMLESS) | Q(subject="failoverrun", name__startswith="simulation")
    return rows.exclude(harmless, to_state__in=["queued", "running"])[:8]


def trust_of(flows: Mapping[FlowPicture, int], now: datetime) -> str:
    """What drills have proven of all flows but drafts, in a sentence."""
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
            standbys.append(Standby(flow.name, "never"))
            continue
        ended_at, passed_at = last[key]
        drills = LastDrills(
            passed_at=passed_at, ended_at=ended_at, ended_well=ended_at == passed_at
        )
        state, age = proven_state(drills, now=now, stale_after=old)
        standbys.append(Standby(flow.name, state, age))
    return trust(standbys)


def mark_trends(rows: Sequence[Any], now: datetime) -> None:
    """Give the rows that are shown their rate, their objective, their score and the last hour."""
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
    """The worst RPO of rows that `mark_trends` read, with a stroke for each change."""
    start = MINUTE.slot(now - _TREND)
    recent = [change for change in changed if change.when >= start]
    objectives = [flow.rpo_seconds * 1000 for flow in rows if flow.rpo_seconds is not None]
    found = sparkline.curve(
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
    """The age of the oldest record not copied, minute by minute; None where nothing is known."""
    first = MINUTE.slot(now - _TREND)
    rows = LagSample.objects.filter(
        flow__in=keys, resolution=MINUTE.seconds, at__gte=first, at__lte=now
    ).order_by()
    known: dict[int, dict[int, float | None]] = defaultdict(dict)
    for flow, at, lag in rows.values_list("flow_id", "at", "time_lag_ms"):
        known[flow][int((at - first) / MINUTE.step)] = lag
    steps = range(int(_TREND / MINUTE.step))
    return {flow: [found.get(step) for step in steps] for flow, found in known.items()}
