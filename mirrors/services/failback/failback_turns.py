"""What a worker does of a way back, each in words that a page shows when it fails."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.models import Failback, OrphanStretch
from mirrors.models.failbacks import OrphanState
from mirrors.services.failback.failback_groups import bring_groups_back

# What waits for so long has lost its message or its worker: taking the name over may take 20 s.
ASK_AGAIN_AFTER = timedelta(seconds=60)


def look_at_groups(*, run_id: int, act: bool) -> None:
    """Where groups would go on, and with `act` putting them there; a refusal is what it says."""
    try:
        bring_groups_back(run_id=run_id, act=act)
    except UnderstudyError as error:
        row = {"group": "", "topic": "", "partition": None, "state": "failed"}
        row |= {"reason": error.message}
        Failback.objects.filter(pk=run_id).update(groups=[row], groups_at=timezone.now())


def waiting_orphans() -> list[int]:
    """Ways back with decisions that no worker did."""
    old = timezone.now() - ASK_AGAIN_AFTER
    rows = OrphanStretch.objects.filter(
        state=OrphanState.DECIDED, since__lt=old, failback__seen_at__lt=old
    )
    return sorted(set(rows.values_list("failback", flat=True)))
