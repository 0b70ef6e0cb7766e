"""When flows were last proven, and how ready they are: what pages, REST and metrics read of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from mirrors.domain.evidence.objectives import Objectives
from mirrors.domain.evidence.proven import LastDrills, Proven, last_proven
from mirrors.domain.evidence.readiness import Readiness, ReadinessPicture, readiness
from mirrors.models.drills import Drill, DrillRun, DrillState, FlowObjectives
from mirrors.models.duties import DutyRun
from mirrors.models.gaps import Gap, GapState
from mirrors.models.groups import NO_PARTITION, GroupOffset

# No place of these on the target is missed: the flow does not carry them.
_LEFT_OUT = ("excluded", "not_copied")
# A duty whose last turn is older than that is at rest with its flow.
_DUTIES_FOR = timedelta(days=2)


def with_proof(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with what `proof_of` needs of their drills."""
    ended = DrillRun.objects.filter(flow=OuterRef("pk"), ended_at__isnull=False)
    newest = ended.order_by("-ended_at", "-pk")
    passed = newest.filter(state=DrillState.PASSED)
    return rows.annotate(
        proven_at=Subquery(passed.values("ended_at")[:1]),
        drilled_at=Subquery(newest.values("ended_at")[:1]),
        drill_state=Subquery(newest.values("state")[:1]),
        drill_reason=Subquery(newest.values("reason")[:1]),
        drill_planned=Exists(Drill.objects.filter(flow=OuterRef("pk"), enabled=True)),
    )


def proof_of(flow: Any, now: datetime) -> Proven:
    """Of a flow that `with_proof` read."""
    last = LastDrills(
        passed_at=flow.proven_at,
        ended_at=flow.drilled_at,
        ended_well=flow.drill_state == DrillState.PASSED,
        reason=flow.drill_reason or "",
        scheduled=flow.drill_planned,
    )
    stale_after = timedelta(days=settings.UNDERSTUDY_PROVEN_DAYS)
    return last_proven(last, now=now, stale_after=stale_after)


def with_readiness(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with what `readiness_of` needs of their own rows: pages ask every second."""
    places = GroupOffset.objects.filter(flow=OuterRef("pk"), partition__gt=NO_PARTITION)
    places = places.exclude(sync_state__in=_LEFT_OUT)
    gaps = Gap.objects.filter(flow=OuterRef("pk"), state=GapState.OPEN, closed_at=None)
    return (
        with_proof(rows)
        .select_related("objectives")
        .annotate(
            places=_count(places),
            translated=_count(places.filter(translated_offset__isnull=False)),
            open_gaps=_count(gaps),
        )
    )


def readiness_of(flows: Iterable[Any], now: datetime) -> dict[int, Readiness]:
    """By flow, in one more query; each was read by `with_readiness(flows_with_lag())`."""
    rows = list(flows)
    failed = _failed_duties([flow.pk for flow in rows], now)
    return {
        flow.pk: readiness(
            ReadinessPicture(
                state=flow.observed_state,
                reason=flow.reason,
                figures_age=None if flow.as_of is None else now - flow.as_of,
                target=flow.target.alias,
                target_reachable=flow.target.reachable,
                target_reason=flow.target.reason,
                offset_lag=flow.offset_lag,
                time_lag_ms=flow.time_lag_ms,
                objectives=_objectives(flow),
                places=flow.places,
                translated=flow.translated,
                open_gaps=flow.open_gaps,
                failed_duties=tuple(failed.get(flow.pk, ())),
                proven=proof_of(flow, now),
            )
        )
        for flow in rows
    }


def _objectives(flow: Any) -> Objectives:
    found: FlowObjectives | None = getattr(flow, "objectives", None)
    return found.spec if found else Objectives()


def _count(rows: QuerySet[Any]) -> Coalesce:
    counted = rows.order_by().values("flow").annotate(amount=Count("pk")).values("amount")
    return Coalesce(Subquery(counted), 0)


def _failed_duties(keys: list[int], now: datetime) -> dict[int, list[tuple[str, str]]]:
    """Duties whose last turn that ended had an error, while the flow is asked to do them."""
    since = int((now - _DUTIES_FOR).timestamp())
    rows = DutyRun.objects.filter(flow__in=keys, slot__gte=since, ended_at__isnull=False)
    last = (
        rows.filter(flow=OuterRef("flow"), duty=OuterRef("duty"))
        .order_by()
        .values("flow", "duty")
        .annotate(newest=Max("slot"))
    )
    found: dict[int, list[tuple[str, str]]] = {}
    broken = rows.exclude(error="").annotate(newest=Subquery(last.values("newest")))
    for row in broken.filter(slot=F("newest")).order_by("duty"):
        found.setdefault(row.flow_id, []).append((row.duty, row.error))
    return found
