"""The life cycle of a run: asked for, taken by a worker, heard of, aborted, ended or lost.

A row comes first and then the queue, so a lost message or worker costs seconds. Failover runs,
failbacks, comparisons, drills and connection tests go through the same steps; what they do in
between differs.

- Each step is a compare-and-set on the row: of two workers one wins.
- A run that is queued for long has lost its message, and is sent again.
- A run that is not heard of for long has lost its worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.models import claim
from mirrors.models.run_lifecycle import RunLifecycle
from mirrors.models.transitions import record
from mirrors.services.errors import Conflict

# Who a change of state is by when a worker made it, or when nobody did.
WORKER = "worker"
RECONCILER = "reconciler"
WAITING = "Waiting for a worker."
# What waits for so long has lost its message.
ASK_AGAIN_AFTER = timedelta(seconds=5)

Run = TypeVar("Run", bound=RunLifecycle)


class Stopped(UnderstudyError):
    """It is not to go on: aborted, or ended by others."""

    code = "stopped"


def request(model: type[Run], *, refusal: str, who: str, noted: str, **facts: Any) -> Run:
    """Write the row that a worker takes; the caller enqueues on commit. One open run a flow:
    Conflict with `refusal` otherwise. `noted` is what the history says of it."""
    with one_open(refusal):
        run: Run = model._default_manager.create(
            **{"reason": WAITING, **facts, "requested_by": who[:150]}
        )
        record(run, field="state", before="", who=who, why=noted)
    return run


@contextmanager
def one_open(refusal: str) -> Iterator[None]:
    """For inserting a row of which the database lets a flow have one open: Conflict otherwise."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise Conflict(refusal) from None


def take(rows: QuerySet[Run], *, state: str, reason: str, **changes: Any) -> bool:
    """The queued run of `rows` for one worker; False when another had it."""
    return claim(rows, state=state, reason=reason, who=WORKER, changes=changes)


def heartbeat(rows: QuerySet[Run], **known: Any) -> str:
    """Say that the worker lives and how far it is; why it must stop, or nothing.

    `rows` is the run as this worker holds it.
    """
    if not rows.update(seen_at=timezone.now(), **known):
        return "The run was ended by others."
    asked = rows.values_list("abort_asked_by", flat=True).first()
    return f"Aborted by {asked}." if asked else ""


def end(rows: QuerySet[Run], *, state: str, reason: str, who: str = WORKER, **known: Any) -> bool:
    """End the open run of `rows`; False when others had ended it."""
    changes = {"ended_at": timezone.now(), **known}
    return claim(rows, state=state, reason=reason, who=who, changes=changes)


def ask_to_abort(
    rows: QuerySet[Run], *, queued: str, aborted: str, who: str, why: str, **at_once: Any
) -> bool:
    """A run that waits for a worker ends at once, with `at_once` written too: True. One that a
    worker has learns of it at its next heartbeat: False. Conflict when it has ended already."""
    reason, changes = why or f"Aborted by {who}.", {"abort_asked_by": who, **at_once}
    if end(rows.filter(state=queued), state=aborted, reason=reason, who=who, **changes):
        return True
    if not rows.filter(ended_at=None).update(abort_asked_by=who):
        raise Conflict("This run has ended already; there is nothing to abort.")
    return False


def unclaimed(rows: QuerySet[Run], *, now: datetime, since: str = "created_at") -> list[int]:
    """Queued runs that no worker took: sent again, since their message may be lost."""
    late = rows.filter(**{f"{since}__lt": now - ASK_AGAIN_AFTER})
    return list(late.values_list("pk", flat=True))


def lost(rows: QuerySet[Run], *, now: datetime, after: timedelta) -> QuerySet[Run]:
    """Of runs that a worker has, those that were not heard of for so long."""
    return rows.filter(seen_at__lt=now - after)


def broken(error: Exception) -> str:
    """A defect of ours as a person reads it; the traceback is in the log."""
    words = str(error)[:300] or "it did not end in time"
    return f"It broke: {type(error).__name__}: {words}. The log says more."
