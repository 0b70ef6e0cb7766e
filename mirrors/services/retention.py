"""Retention of rows: deletes or shrinks what exceeds its retention time.

Executed failovers, failbacks, drills and certificates are evidence and stay.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Model, Q
from django.utils import timezone

from mirrors.models import (
    ClusterTest,
    Comparison,
    ConflictReport,
    Drift,
    DutyRun,
    FailoverRun,
    FlowMove,
    Gap,
    Job,
    PositionChange,
    RulePreview,
    Sighting,
)
from mirrors.models.failover import FailoverKind
from mirrors.services.audit.chain import delete_old_entries

AT_ONCE = 200
_SHOWN_FINDINGS = 30
_LONG = timedelta(days=400)


@dataclasses.dataclass(frozen=True)
class Rule:
    """Rows of one kind are deleted when the moment in `field` is older than `keep`.

    A row that has not ended has no such moment, so it stays.
    """

    kind: str
    model: type[Model]
    field: str
    keep: timedelta

    def delete(self, now: datetime) -> int:
        """Number of deleted rows of this kind; rows that belong to them are not counted."""
        rows = self.model._default_manager.filter(**{f"{self.field}__lt": now - self.keep})
        _, deleted = rows.delete()
        return deleted.get(self.model._meta.label, 0)


RULES = (
    Rule("tests", ClusterTest, "created_at", timedelta(days=7)),
    Rule("jobs", Job, "ended_at", timedelta(days=90)),
    Rule("duty_runs", DutyRun, "ended_at", timedelta(days=30)),
    Rule("flow_moves", FlowMove, "ended_at", timedelta(days=90)),
    Rule("comparisons", Comparison, "ended_at", timedelta(days=90)),
    # They hold keys of records.
    Rule("conflict_reports", ConflictReport, "requested_at", timedelta(days=30)),
    # The audit log keeps what was applied.
    Rule("position_changes", PositionChange, "requested_at", timedelta(days=30)),
    # It holds records.
    Rule("rule_previews", RulePreview, "requested_at", timedelta(hours=1)),
    Rule("gaps", Gap, "closed_at", _LONG),
    Rule("drift", Drift, "closed_at", _LONG),
    # Processes that no longer report.
    Rule("sightings", Sighting, "seen_at", timedelta(days=1)),
    # Anybody may cause these rows by asking for a sign-in. The audit log has what matters of them.
    Rule("sessions", Session, "expire_date", timedelta(0)),
    Rule("sign_in_attempts", AccessAttempt, "attempt_time", timedelta(days=1)),
    Rule("sign_in_failures", AccessFailureLog, "attempt_time", timedelta(days=1)),
    Rule("sign_ins", AccessLog, "attempt_time", timedelta(days=30)),
)
# A simulation: its rows for UNDERSTUDY_EVIDENCE_DAYS, the run itself for this time.
SIMULATIONS_KEPT = _LONG


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
        kind=FailoverKind.SIMULATION, ended_at__lt=now - SIMULATIONS_KEPT, swept_at__isnull=False
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


def prune() -> dict[str, int]:
    """Number of deleted rows by kind."""
    now = timezone.now()
    return {
        **{rule.kind: rule.delete(now) for rule in RULES},
        "transitions": delete_old_entries(now=now),
        "evidence": drop_old_rows(now=now),
        "simulations": delete_old_runs(now=now),
    }
