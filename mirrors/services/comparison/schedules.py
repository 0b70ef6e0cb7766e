"""Comparisons by schedule: each continues where the last one ended. With `skip.replicated`, a
report of conflicting keys is requested at the same time.

- A scheduled time is taken once: `compared_since` moves by compare-and-set in the transaction that
  creates the run.
- Missed times count once. While a comparison of the flow is open, the time remains due.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from mirrors.domain.cron import latest_run_ms
from mirrors.domain.settings.flow_control import COMPARE_SCHEDULE, COMPARE_ZONE
from mirrors.models import Comparison, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.comparison import conflicts, lifecycle
from mirrors.services.errors import Conflict

WHO = "schedule"


def open_due_comparisons(*, now: datetime) -> int:
    """Request a comparison of each flow that is due; returns how many this call requested."""
    busy = Comparison.objects.filter(ended_at=None).values("flow")
    flows = Flow.objects.filter(
        desired_state=DesiredState.RUNNING, properties__has_key=COMPARE_SCHEDULE
    )
    rows = flows.exclude(pk__in=busy).select_related("source", "target")
    return sum(_take(flow, now) for flow in rows)


def _take(flow: Flow, now: datetime) -> bool:
    mine = Flow.objects.filter(pk=flow.pk, compared_since=flow.compared_since)
    if flow.compared_since is None:
        # Its first comparison is at the next scheduled time, never at once.
        mine.update(compared_since=now)
        return False
    slot = latest_run_ms(
        flow.properties[COMPARE_SCHEDULE],
        since=milliseconds(flow.compared_since),
        now=milliseconds(now),
        zone=flow.properties.get(COMPARE_ZONE) or "UTC",
    )
    if slot is None:
        return False
    with transaction.atomic():
        if not mine.update(compared_since=moment(slot)):
            return False
        try:
            lifecycle.request_comparison(
                flow=flow,
                who=WHO,
                records=None,
                seconds=lifecycle.MOST_SECONDS,
                megabytes=lifecycle.MOST_MEGABYTES,
                is_incremental=True,
                why=f"Scheduled for {moment(slot):%Y-%m-%d %H:%M} UTC.",
            )
        except Conflict:
            transaction.set_rollback(True)
            return False
        conflicts.request_scheduled(flow=flow, who=WHO)
    return True
