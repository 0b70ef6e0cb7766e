"""Content of the overview page besides its rows: alerts with runbooks, drills, trends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, Max, Q, QuerySet, When
from django.db.models.lookups import Exact

from mirrors.domain.drills.proof import proven_state
from mirrors.models import DrillRun, Transition
from mirrors.models.drills.runs import ENDED_WELL, PROVES
from monitoring.alerts import links
from monitoring.alerts.evaluation import is_silenced
from monitoring.domain.overview.data_loss import FlowSummary
from monitoring.domain.overview.summary import FlowProblem, StandbyProof, drill_sentence
from monitoring.models import Alert, AlertState, Silence

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
    active = list(Silence.objects.filter(starts_at__lte=now, ends_at__gt=now))
    # A flow's row says which clusters it has, which only silences of clusters ask for.
    related = ("rule", "flow") if any(one.cluster_id for one in active) else ("rule",)
    rows = Alert.objects.filter(state=AlertState.FIRING).select_related(*related)
    firing = list(rows.order_by("fired_at")[:_MOST_ALERTS])
    unsilenced = [one for one in firing if not is_silenced(one, active)]
    unsilenced.sort(key=lambda one: _SEVERITIES.index(one.severity))
    return [FiringAlert(one) for one in unsilenced]


def runbook_for(flow: Any, alarm: FiringAlert | None) -> str:
    """Runbook for a flow in trouble, also before an alert fires."""
    kind = _RUNBOOKS.get(flow.shown_state)
    if alarm is not None and alarm.runbook:
        return alarm.runbook
    return links.runbook_for(kind, flow.pk) if kind else ""


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


def recent_transitions() -> QuerySet[Transition]:
    """The newest transitions, without intermediate steps of runs that change nothing."""
    rows = Transition.objects.exclude(subject__in=["job", "clustertest", "gap"])
    read_only = Q(subject__in=_READ_ONLY_RUNS) | Q(
        subject="failoverrun", name__startswith="simulation"
    )
    return rows.exclude(read_only, to_state__in=["queued", "running"])[:8]


@dataclasses.dataclass(frozen=True)
class Proof:
    """What shows that the standbys work: drills of all flows, the last one, readiness.

    `lowest` and `highest` are of the flows in the table, None if no readiness is known.
    """

    sentence: str
    last: DrillRun | None
    lowest: int | None
    highest: int | None
    lowest_flow: Any = None


def proof_of_standbys(flows: Iterable[FlowSummary], rows: Sequence[Any], now: datetime) -> Proof:
    """`rows` are those of the table, with their readiness."""
    ended = DrillRun.objects.filter(ended_at__isnull=False)
    scored = sorted((row for row in rows if row.ready is not None), key=lambda row: row.ready)
    return Proof(
        sentence=_drill_results(flows, now),
        last=ended.order_by("-ended_at").first(),
        lowest=scored[0].ready if scored else None,
        highest=scored[-1].ready if scored else None,
        lowest_flow=scored[0] if scored else None,
    )


def _drill_results(flows: Iterable[FlowSummary], now: datetime) -> str:
    """Results of drills over all flows except drafts, as one sentence."""
    ended = DrillRun.objects.filter(ended_at__isnull=False).order_by().values_list("flow")
    ended_well = Max("ended_at", filter=Q(state__in=ENDED_WELL))
    last = ended.annotate(
        passed_at=Max("ended_at", filter=PROVES),
        well=Case(When(Exact(ended_well, Max("ended_at")), then=True), default=False),
    )
    old = timedelta(days=settings.UNDERSTUDY_PROVEN_DAYS)
    proven = {
        flow: proven_state(passed_at, failed=not well, now=now, stale_after=old)[0]
        for flow, passed_at, well in last
    }
    return drill_sentence(
        StandbyProof(flow.name, proven.get(flow.key, "never"))
        for flow in flows
        if flow.state != "draft"
    )
