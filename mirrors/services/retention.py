"""Retention of rows: deletes or shrinks what exceeds its retention time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from mirrors.models import (
    ClusterTest,
    Comparison,
    Drift,
    DutyRun,
    FailoverRun,
    Gap,
    Job,
    Transition,
)
from mirrors.models.failover import FailoverKind
from mirrors.services.process_liveness import delete_old_rows

AT_ONCE = 200
_RUNS_FOR = timedelta(days=400)
_SHOWN_FINDINGS = 30


def drop_old_rows(*, now: datetime) -> int:
    """Applies to simulations only: the record of an execution is kept whole."""
    old = FailoverRun.objects.filter(
        kind=FailoverKind.SIMULATION,
        ended_at__lt=now - timedelta(days=settings.UNDERSTUDY_EVIDENCE_DAYS),
    )
    bulky = old.filter(Q(plan__has_key="partitions") | Q(result__has_key="partitions"))
    runs = bulky.order_by("pk")[:AT_ONCE]
    for run in runs:
        FailoverRun.objects.filter(pk=run.pk).update(
            plan=_plan(run.plan, now), result=_result(run.result, now)
        )
    return len(runs)


def delete_old_runs(*, now: datetime) -> int:
    old = FailoverRun.objects.filter(
        kind=FailoverKind.SIMULATION, ended_at__lt=now - _RUNS_FOR, swept_at__isnull=False
    )
    keys = list(old.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    FailoverRun.objects.filter(pk__in=keys).delete()
    return len(keys)


def _plan(plan: dict[str, Any] | None, now: datetime) -> dict[str, Any] | None:
    if plan is None:
        return None
    kept = {
        name: plan.get(name)
        for name in ("digest", "flow", "taken_at", "loss", "certainty", "re_reads")
    }
    findings = {name: plan.get(name, [])[:_SHOWN_FINDINGS] for name in ("blockers", "warnings")}
    return {**kept, **findings, "dropped_at": now.isoformat()}


def _result(result: dict[str, Any] | None, now: datetime) -> dict[str, Any] | None:
    if result is None:
        return None
    kept = {name: result.get(name) for name in ("sentence", "source_trouble", "totals")}
    return {**kept, "dropped_at": now.isoformat()}


_TESTS_FOR = timedelta(days=7)
_TRANSITIONS_FOR = timedelta(days=400)
_JOBS_FOR = timedelta(days=90)
_COMPARISONS_FOR = _JOBS_FOR
_DUTY_RUNS_FOR = timedelta(days=30)
_GAPS_FOR = _TRANSITIONS_FOR


def prune() -> dict[str, int]:
    """Number of deleted rows by kind."""
    now = timezone.now()
    tests, _ = ClusterTest.objects.filter(created_at__lt=now - _TESTS_FOR).delete()
    jobs, _ = Job.objects.filter(ended_at__lt=now - _JOBS_FOR).delete()
    duty_runs, _ = DutyRun.objects.filter(ended_at__lt=now - _DUTY_RUNS_FOR).delete()
    old = Comparison.objects.filter(ended_at__lt=now - _COMPARISONS_FOR)
    compared = old.count()
    old.delete()
    gaps, _ = Gap.objects.filter(closed_at__lt=now - _GAPS_FOR).delete()
    drift, _ = Drift.objects.filter(closed_at__lt=now - _GAPS_FOR).delete()
    transitions, _ = Transition.objects.filter(when__lt=now - _TRANSITIONS_FOR).delete()
    return {
        "tests": tests,
        "jobs": jobs,
        "duty_runs": duty_runs,
        "comparisons": compared,
        "gaps": gaps,
        "drift": drift,
        "transitions": transitions,
        "evidence": drop_old_rows(now=now),
        "simulations": delete_old_runs(now=now),
        "sightings": delete_old_rows(),
    }
