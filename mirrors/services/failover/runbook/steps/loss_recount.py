"""Count the loss of an ended failover once its source is back, and add it beside the prediction."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.models import FailoverRun
from mirrors.models.failover import FailoverState
from mirrors.models.transitions import note
from mirrors.services.failover.runbook.lease import executions
from mirrors.services.failover.runbook.steps.loss_count import CountedLoss, count_run, refresh_maps
from mirrors.services.run_lifecycle import WORKER

log = logging.getLogger(__name__)

# How soon a count is tried again: while the source is away or refuses, and while a part of it is
# unknown although the source answers.
AGAIN = timedelta(seconds=30)
AGAIN_WHERE_UNKNOWN = timedelta(hours=1)
# After so long nobody expects the source to come back as it was.
GIVE_UP_AFTER = timedelta(days=30)
INDEX_S = 20.0


def due_counts(*, now: datetime) -> list[int]:
    """Ended runs whose loss may be counted now: their source answered at the last look."""
    rows = executions().filter(
        state=FailoverState.SUCCEEDED,
        count_due_at__lte=now,
        ended_at__gt=now - GIVE_UP_AFTER,
        flow__source__reachable=True,
    )
    return list(rows.values_list("pk", flat=True)[:20])


def recount(*, run_id: int) -> bool:
    """Count it, in a worker; True when a figure was added. A source that is away is tried again."""
    now = timezone.now()
    mine: QuerySet[FailoverRun] = executions().filter(pk=run_id, count_due_at__lte=now)
    if not mine.update(count_due_at=now + 2 * AGAIN):
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
    """Beside the prediction, which stays as it was said and signed."""
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
    """A later run of the flow moved the divergence points, so they are no longer this run's."""
    later = executions().filter(flow=run.flow_id, pk__gt=run.pk, state=FailoverState.SUCCEEDED)
    return later.exists()
