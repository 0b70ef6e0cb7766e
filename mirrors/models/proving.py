"""When flows were last proven, and how ready they are: what pages, REST and metrics read of it."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from mirrors.domain.duty_table import DUTY_NAMES
from mirrors.domain.evidence.objectives import Objectives
from mirrors.domain.evidence.proven import LastDrills, Proven, last_proven
from mirrors.domain.evidence.readiness import Readiness, ReadinessPicture, readiness
from mirrors.models.drills import ENDED_WELL, Drill, DrillRun, DrillState, FlowObjectives
from mirrors.models.duties import DutyRun
from mirrors.models.flows import Flow
from mirrors.models.gaps import Gap, GapState
from mirrors.models.groups import NO_PARTITION, GroupOffset

# No place of these on the target is missed: the flow does not carry them.
_LEFT_OUT = ("excluded", "not_copied")
# A duty whose last turn is older than that is at rest with its flow.
_DUTIES_FOR = timedelta(days=2)
_NONE = (0, 0)
_MANY = 200


def with_proof(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with what `proof_of` needs of their drills."""
    ended = DrillRun.objects.filter(flow=OuterRef("pk"), ended_at__isnull=False)
    newest = ended.order_by("-ended_at", "-pk")
    passed = newest.filter(state__in=ENDED_WELL)
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
        ended_well=flow.drill_state in ENDED_WELL,
        had_objectives=flow.drill_state != DrillState.NO_OBJECTIVES,
        reason=flow.drill_reason or "",
        scheduled=flow.drill_planned,
    )
    stale_after = timedelta(days=settings.UNDERSTUDY_PROVEN_DAYS)
    return last_proven(last, now=now, stale_after=stale_after)


def with_readiness(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with what `readiness_of` needs of their own rows: pages ask every second."""
    gaps = Gap.objects.filter(flow=OuterRef("pk"), state=GapState.OPEN, closed_at=None)
    counted = gaps.order_by().values("flow").annotate(amount=Count("pk")).values("amount")
    rows = with_proof(rows).select_related("objectives")
    return rows.annotate(open_gaps=Coalesce(Subquery(counted), 0))


def readiness_of(flows: Iterable[Any], now: datetime) -> dict[int, Readiness]:
    """By flow, in two more queries; each was read by `with_readiness(flows_with_lag())`."""
    rows = list(flows)
    keys = [flow.pk for flow in rows]
    failed, groups = _failed_duties(keys, now), _places(keys)
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
                places=groups.get(flow.pk, _NONE)[0],
                translated=groups.get(flow.pk, _NONE)[1],
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


def _places(keys: list[int]) -> dict[int, tuple[int, int]]:
    """By flow: the places that its groups have on the source, and those of them on the target."""
    rows = GroupOffset.objects.filter(partition__gt=NO_PARTITION)
    if len(keys) < _MANY:  # each row compared with hundreds takes longer than to count them all
        rows = rows.filter(flow__in=keys)
    by_flow = rows.exclude(sync_state__in=_LEFT_OUT).order_by().values_list("flow")
    counted = by_flow.annotate(places=Count("pk"), translated=Count("translated_offset"))
    return {flow: (places, translated) for flow, places, translated in counted}


def _failed_duties(keys: list[int], now: datetime) -> dict[int, list[tuple[str, str]]]:
    """Duties whose last turn that ended had an error, while the flow is asked to do them.

    The last turn of each is looked up: a month of turns is a million rows.
    """
    since = int((now - _DUTIES_FOR).timestamp()) // 3_600 * 3_600
    found: dict[int, list[tuple[str, str]]] = {}
    for key, *errors in _last_errors(since).filter(pk__in=keys):
        for duty, error in zip(DUTY_NAMES, errors, strict=True):
            if error:
                found.setdefault(key, []).append((duty, error))
    return found


@functools.lru_cache(maxsize=1)
def _last_errors(since: int) -> QuerySet[Any, Any]:
    """The question alone, put together once an hour."""
    ended = DutyRun.objects.filter(flow=OuterRef("pk"), slot__gte=since, ended_at__isnull=False)
    last = [
        Subquery(ended.filter(duty=duty).order_by("-slot").values("error")[:1])
        for duty in DUTY_NAMES
    ]
    return Flow.objects.order_by().values_list("pk", *last)
