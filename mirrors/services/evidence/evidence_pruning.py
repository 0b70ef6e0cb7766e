"""Old simulations lose their bulky rows, very old ones go; totals and certificates stay.

Bounded: what is left over is done an hour later.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from mirrors.models import FailoverRun
from mirrors.models.failovers import FailoverKind

AT_ONCE = 200
_RUNS_FOR = timedelta(days=400)
_SHOWN_FINDINGS = 30


def drop_old_rows(*, now: datetime) -> int:
    """Of simulations only: what an execution did stays whole."""
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
