"""Rows of sync-task runs: one row per slot, equal frequent runs merged, lost runs ended.

The life cycle of a run is `run_lifecycle` where it is the same: the insert under a constraint, the
message after the commit, the sentence of an unexpected error. The rest differs:
- A schedule's run has no request and no message: a worker takes the slot and begins.
- It is not audited: a transition of each task every few seconds would hide what people do.
- It sends no heartbeat: its time limit is shorter than a lost worker is noticed by one.
- A lost message is not sent again: the next slot repeats the run, and a person repeats a check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import DatabaseError, transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.states.sync import SYNC_RUN, SyncRunState
from mirrors.domain.sync.schedule import Outcome, PastRuns, total
from mirrors.domain.sync.tasks import TAKEOVER_CHECK
from mirrors.models import DutyRun
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.run_lifecycle import single_open_run, unexpected_error_text

log = logging.getLogger(__name__)

# A run that is open for longer has lost its worker.
LOST_AFTER = timedelta(seconds=90)
SHOWN_REASONS = 100
# Every sync task runs at least daily.
_REMEMBERED = timedelta(days=2)
_LOST = "Its worker was lost during the run; the next run repeats it."
_LOST_CHECK = (
    "No worker finished the check, so it is unknown whether MirrorMaker 2 writes. Check again."
)

Result = TypeVar("Result")


def open_run(*, flow_id: int, name: str, slot: int, now: datetime) -> DutyRun | None:
    """The run's row, or None when the slot is taken or the last run has not ended."""
    try:
        return request_run(flow_id=flow_id, name=name, slot=slot, now=now, refusal="")
    except Conflict:
        return None


def request_run(*, flow_id: int, name: str, slot: int, now: datetime, refusal: str) -> DutyRun:
    """The run's row. Conflict with `refusal` when the slot is taken or the last run is open."""
    with single_open_run(refusal):
        run = DutyRun.objects.create(
            flow_id=flow_id, duty=name, slot=slot, since=now, started_at=now
        )
    SYNC_RUN.check_initial(run.state)
    return run


def claim_run(*, run_id: int) -> DutyRun | None:
    """Claim a run that a person requested; None when another worker has it, or it has ended.

    A request stores the same time in `since` and `started_at`; the claim sets the latter.
    """
    requested = DutyRun.objects.filter(pk=run_id, ended_at=None, started_at=F("since"))
    if not requested.update(started_at=timezone.now()):
        return None
    run = DutyRun.objects.select_related("flow__source", "flow__target").get(pk=run_id)
    SYNC_RUN.check(SyncRunState.QUEUED, run.state)
    return run


def attempt(
    act: Callable[..., Result], *arguments: Any, name: str, flow_id: int
) -> tuple[Result | None, str]:
    """The result; or None, and the sentence of the error that stopped the run."""
    try:
        return act(*arguments), ""
    except UnderstudyError as error:
        return None, error.message
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("sync task %s of flow %s raised an unexpected error", name, flow_id)
        return None, unexpected_error_text(error)


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
        before = row.state
        row.ended_at = timezone.now()
        row.counts, row.totals = outcome.counts, outcome.counts
        row.reasons, row.error = reasons, error
        SYNC_RUN.check(before, row.state)
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
    """Fail open runs that a worker has lost, and requests that none has claimed."""
    lost = DutyRun.objects.filter(ended_at=None, started_at__lt=now - LOST_AFTER)
    checks = lost.filter(duty=TAKEOVER_CHECK).update(ended_at=now, error=_LOST_CHECK)
    return checks + lost.update(ended_at=now, error=_LOST)


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
