"""Counts the loss of an ended failover when its source is back, in addition to the prediction."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import UnderstudyError
from mirrors.models import FailoverRun
from mirrors.models.audit.transitions import note
from mirrors.models.failover import FailoverState
from mirrors.services.failover.runbook.lease import executions
from mirrors.services.failover.runbook.steps.loss_count import CountedLoss, count_run, refresh_maps

log = logging.getLogger(__name__)

# Interval between attempts: while the source is unreachable or refuses, and while a part is
# unknown although the source responds.
AGAIN = timedelta(seconds=15)
AGAIN_WHERE_UNKNOWN = timedelta(hours=1)
# Longer than the task may run, so that no second worker counts the same run.
CLAIM = timedelta(minutes=3)
# After this time the source is not expected back in its old state.
GIVE_UP_AFTER = timedelta(days=30)
INDEX_S = 20.0


def due_counts(*, now: datetime) -> list[int]:
    """Ended runs whose loss may be counted now: their source responded at its last check."""
    rows = executions().filter(
        state=FailoverState.SUCCEEDED,
        count_due_at__lte=now,
        ended_at__gt=now - GIVE_UP_AFTER,
        flow__source__reachable=True,
    )
    return list(rows.values_list("pk", flat=True)[:20])


def recount(*, run_id: int) -> bool:
    """Count in a worker; True when a figure was added. An unreachable source is tried again."""
    now = timezone.now()
    mine: QuerySet[FailoverRun] = executions().filter(pk=run_id, count_due_at__lte=now)
    if not mine.update(count_due_at=now + CLAIM):
        return False
    run = FailoverRun.objects.select_related("flow__source", "flow__target").get(pk=run_id)
    if _is_overtaken(run):
        FailoverRun.objects.filter(pk=run_id).update(count_due_at=None)
        return False
    try:
        refresh_maps(run.flow, INDEX_S)
        found = count_run(run=run, flow=run.flow, now=now, tick=lambda: None)
    except UnderstudyError as error:
        log.info("the loss of run %s is not counted yet: %s", run_id, error.message)
        FailoverRun.objects.filter(pk=run_id).update(count_due_at=now + AGAIN)
        return False
    store(run=run, found=found, who=WORKER)
    return True


def store(*, run: FailoverRun, found: CountedLoss, who: str) -> None:
    """Stored in addition to the prediction, which is signed and does not change."""
    is_whole = not found.loss.unknown and not found.re_reads.unknown
    again = None if is_whole else found.counted_at + AGAIN_WHERE_UNKNOWN
    sums = found.to_dict(source=run.flow.source.alias)
    with transaction.atomic():
        FailoverRun.objects.filter(pk=run.pk).update(
            counted=sums,
            counted_rows={"partitions": found.partitions, "places": found.places},
            counted_at=found.counted_at,
            count_due_at=again,
        )
        note(run, what="loss counted", who=who, why=sums["sentence"])


def _is_overtaken(run: FailoverRun) -> bool:
    """A later run of the flow replaced the divergence points of this run."""
    later = executions().filter(flow=run.flow_id, pk__gt=run.pk, state=FailoverState.SUCCEEDED)
    return later.exists()
