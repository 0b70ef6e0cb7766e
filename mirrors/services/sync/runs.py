"""Rows of sync-task runs: one row per slot, equal frequent runs merged, lost runs ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from mirrors.domain.sync.schedule import Outcome, PastRuns, total
from mirrors.models import DutyRun
from mirrors.services.clock import milliseconds

# A run that is open for longer has lost its worker.
LOST_AFTER = timedelta(seconds=90)
SHOWN_REASONS = 100
# Every sync task runs at least daily.
_REMEMBERED = timedelta(days=2)
_LOST = "Its worker was lost during the run; the next run repeats it."


def open_run(*, flow_id: int, name: str, slot: int, now: datetime) -> DutyRun | None:
    """The run's row, or None when the slot is taken or the last run has not ended."""
    try:
        with transaction.atomic():
            return DutyRun.objects.create(
                flow_id=flow_id, duty=name, slot=slot, since=now, started_at=now
            )
    except IntegrityError:
        return None


def claim_run(*, run_id: int) -> DutyRun | None:
    """Claim a run that a person requested; None when another worker has it, or it has ended.

    A request stores the same time in `since` and `started_at`; the claim sets the latter.
    """
    requested = DutyRun.objects.filter(pk=run_id, ended_at=None, started_at=F("since"))
    if not requested.update(started_at=timezone.now()):
        return None
    return DutyRun.objects.select_related("flow__source", "flow__target").get(pk=run_id)


def close_run(*, run: DutyRun, outcome: Outcome, error: str = "", fold: bool = False) -> None:
    """Store the outcome of a run; with `fold`, equal runs of an hour become one row."""
    reasons = list(outcome.reasons[:SHOWN_REASONS])
    if (more := len(outcome.reasons) - SHOWN_REASONS) > 0:
        reasons.append(f"And {more} more.")
    with transaction.atomic():
        # The row was closed as lost meanwhile, because the run took too long.
        row = DutyRun.objects.select_for_update().filter(pk=run.pk, ended_at=None).first()
        if row is None:
            return
        row.ended_at = timezone.now()
        row.counts, row.totals = outcome.counts, outcome.counts
        row.reasons, row.error = reasons, error
        if fold:
            _fold(row)
        row.save()


def _fold(row: DutyRun) -> None:
    """Merge the row before into this one, whose slot remains the last one taken."""
    rows = DutyRun.objects.filter(flow_id=row.flow_id, duty=row.duty, slot__lt=row.slot)
    before = rows.first()
    if before is None or before.ended_at is None or before.error != row.error:
        return
    if before.since.replace(minute=0, second=0, microsecond=0) != row.since.replace(
        minute=0, second=0, microsecond=0
    ):
        return
    row.since, row.runs = before.since, before.runs + 1
    row.totals = total(before.totals, row.counts)
    before.delete()


def end_lost(*, now: datetime) -> int:
    lost = DutyRun.objects.filter(ended_at=None, started_at__lt=now - LOST_AFTER)
    return lost.update(ended_at=now, error=_LOST)


def past_runs(flow_ids: Iterable[int], *, now: datetime) -> dict[tuple[int, str], PastRuns]:
    """(flow, task) -> its last run, and whether it is open; older tasks are due anyway."""
    since = milliseconds(now - _REMEMBERED) // 1000
    rows = DutyRun.objects.filter(flow__in=list(flow_ids), slot__gte=since).order_by()
    found = rows.values_list("flow_id", "duty").annotate(
        last=Max("slot"), runs=Count("pk", filter=Q(ended_at=None))
    )
    return {(flow, duty): PastRuns(slot=last, runs=runs > 0) for flow, duty, last, runs in found}


def last_runs(flow_id: int) -> dict[str, DutyRun]:
    """The last run of each sync task of a flow."""
    last = DutyRun.objects.filter(flow=flow_id).order_by().values("duty").annotate(at=Max("slot"))
    wanted = Q(pk=None)
    for row in last:
        wanted |= Q(duty=row["duty"], slot=row["at"])
    return {run.duty: run for run in DutyRun.objects.filter(wanted, flow=flow_id)}
