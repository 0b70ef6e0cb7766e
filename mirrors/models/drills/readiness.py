"""When flows were last proven by a drill, and their readiness, for pages, REST and metrics."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Aggregate, Count, Exists, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from mirrors.domain.account.partition import BLOCKING, State
from mirrors.domain.account.sentences import STATE_TEXTS
from mirrors.domain.account.totals import Total
from mirrors.domain.drills.objectives import Objectives
from mirrors.domain.drills.proof import DrillProof, LastDrills, last_proven
from mirrors.domain.drills.readiness import Readiness, ReadinessFacts, readiness
from mirrors.domain.formatting import short_name
from mirrors.domain.gaps.foreign_records import ONGOING
from mirrors.domain.sync.tasks import SYNC_TASK_NAMES
from mirrors.models.drift import Drift, DriftState
from mirrors.models.drills.runs import (
    ENDED_WELL,
    PROVES,
    Drill,
    DrillRun,
    DrillState,
    FlowObjectives,
)
from mirrors.models.failover import FailoverKind, FailoverRun
from mirrors.models.flows import Flow, FlowTopic
from mirrors.models.gaps import Gap, GapKind, GapState
from mirrors.models.groups.offsets import LEFT_OUT, NO_PARTITION, GroupOffset
from mirrors.models.schemas import schema_problem_of, with_schemas
from mirrors.models.sync import DutyRun

# A sync task whose last run is older is stopped together with its flow.
_TASKS_FOR = timedelta(days=2)
_NONE = (0, 0)
_MANY = 200


def with_proof(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with the columns that `proof_of` needs of their drills."""
    ended = DrillRun.objects.filter(flow=OuterRef("pk"), ended_at__isnull=False)
    newest = ended.order_by("-ended_at", "-pk")
    passed = newest.filter(PROVES)
    return rows.annotate(
        proven_at=Subquery(passed.values("ended_at")[:1]),
        drilled_at=Subquery(newest.values("ended_at")[:1]),
        drill_state=Subquery(newest.values("state")[:1]),
        drill_reason=Subquery(newest.values("reason")[:1]),
        drill_planned=Exists(Drill.objects.filter(flow=OuterRef("pk"), enabled=True)),
    )


def proof_of(flow: Any, now: datetime) -> DrillProof:
    """When the flow was last proven; `with_proof` must have read it."""
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


def with_readiness(rows: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """The same flows with the columns that `readiness_of` needs; pages ask every second."""
    gaps = Gap.objects.filter(flow=OuterRef("pk"), state=GapState.OPEN, closed_at=None)
    counted = gaps.order_by().values("flow").annotate(amount=Count("pk")).values("amount")
    rows = with_schemas(with_proof(rows).select_related("objectives"))
    simulated = FailoverRun.objects.filter(
        flow=OuterRef("pk"),
        kind=FailoverKind.SIMULATION,
        lacking__isnull=False,
        scope={},
        groups=[],
    )
    topics = FlowTopic.objects.filter(
        flow=OuterRef("pk"), account_state__in=[*BLOCKING, "left_behind"]
    ).order_by("topic")
    drift = Drift.objects.filter(flow=OuterRef("pk"), closed_at=None, state=DriftState.OPEN)
    foreign = Gap.objects.filter(
        flow=OuterRef("pk"), kind=GapKind.REMOTE_WRITTEN, seen_at__gt=now - ONGOING
    )
    return rows.annotate(
        open_gaps=Coalesce(Subquery(counted), 0),
        lacking=Subquery(simulated.order_by("-pk").values("lacking")[:1]),
        not_copied=_counted(topics, Count("pk")),
        not_copied_topic=Subquery(topics.values("topic")[:1]),
        not_copied_state=Subquery(topics.values("account_state")[:1]),
        drift_count=_counted(drift, Count("pk")),
        drift_first=Subquery(drift.order_by("pk").values("name")[:1]),
        # An event without a count is a foreign write all the same.
        foreign_records=_counted(foreign, Sum(Coalesce("count", 1))),
    )


def _counted(rows: QuerySet[Any], how: Aggregate) -> Coalesce:
    found = rows.order_by().values("flow").annotate(amount=how).values("amount")
    return Coalesce(Subquery(found), 0)


def readiness_of(flows: Iterable[Any], now: datetime) -> dict[int, Readiness]:
    """By flow, with two more queries; `with_readiness(flows_with_lag())` must have read them."""
    rows = list(flows)
    keys = [flow.pk for flow in rows]
    failed, groups = _failed_tasks(keys, now), _group_partitions(keys)
    return {
        flow.pk: readiness(
            ReadinessFacts(
                state=flow.observed_state,
                reason=flow.reason,
                figures_age=None if flow.as_of is None else now - flow.as_of,
                source=flow.source.alias,
                source_reachable=flow.source.reachable,
                target=flow.target.alias,
                target_reachable=flow.target.reachable,
                target_reason=flow.target.reason,
                dead_addresses=(*flow.source.warnings, *flow.target.warnings),
                source_warned=bool(flow.source.warnings),
                not_copied=flow.not_copied,
                not_copied_first=_not_copied(flow),
                not_visible=_hidden(flow),
                lacking=_lacking(flow.lacking),
                drift=flow.drift_count,
                drift_first=flow.drift_first or "",
                schemas=schema_problem_of(flow, now),
                foreign_records=flow.foreign_records,
                offset_lag=_owed_now(flow, now),
                time_lag_ms=flow.time_lag_ms,
                is_lag_least=bool(flow.unknown_lags),
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


def _owed_now(flow: Any, now: datetime) -> int | None:
    """Owed records as of now. An old observation is only a lower bound, which meets no RPO."""
    account = getattr(flow, "account", None)
    if account is None:
        return None
    found: Total = account.total.as_of(round(now.timestamp() * 1000))
    return found.exact_or_none if found.certainty in ("counted", "at_most") else None


def _not_copied(flow: Any) -> str:
    if not flow.not_copied:
        return ""
    state: State = flow.not_copied_state
    return f"{short_name(flow.not_copied_topic)} ({STATE_TEXTS[state]})"


def _hidden(flow: Any) -> str:
    account = getattr(flow, "account", None)
    return account.not_visible if account is not None else ""


def _lacking(found: Any) -> tuple[str, ...] | None:
    # A subquery of a JSON column comes as text from SQLite.
    if isinstance(found, str):
        found = json.loads(found)
    return None if found is None else tuple(found)


def _group_partitions(keys: list[int]) -> dict[int, tuple[int, int]]:
    """By flow: its group-partitions on the source, and how many of them the target has."""
    rows = GroupOffset.objects.filter(partition__gt=NO_PARTITION)
    if len(keys) < _MANY:  # comparing each row with hundreds of keys is slower than counting all
        rows = rows.filter(flow__in=keys)
    by_flow = rows.exclude(sync_state__in=LEFT_OUT).order_by().values_list("flow")
    counted = by_flow.annotate(places=Count("pk"), translated=Count("translated_offset"))
    return {flow: (places, translated) for flow, places, translated in counted}


def _failed_tasks(keys: list[int], now: datetime) -> dict[int, list[tuple[str, str]]]:
    """Enabled sync tasks whose last finished run had an error.

    One look-up for each task: a month of runs is a million rows.
    """
    since = int((now - _TASKS_FOR).timestamp()) // 3_600 * 3_600
    found: dict[int, list[tuple[str, str]]] = {}
    for key, *errors in _last_errors(since).filter(pk__in=keys):
        for duty, error in zip(SYNC_TASK_NAMES, errors, strict=True):
            if error:
                found.setdefault(key, []).append((duty, error))
    return found


@functools.lru_cache(maxsize=1)
def _last_errors(since: int) -> QuerySet[Any, Any]:
    """The query of all flows alone, built once an hour."""
    ended = DutyRun._base_manager.filter(
        flow=OuterRef("pk"), slot__gte=since, ended_at__isnull=False
    )
    last = [
        Subquery(ended.filter(duty=duty).order_by("-slot").values("error")[:1])
        for duty in SYNC_TASK_NAMES
    ]
    return Flow._base_manager.order_by().values_list("pk", *last)
