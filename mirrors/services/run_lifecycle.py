"""The life cycle of a run: requested, taken by a worker, heartbeats, aborted, ended or lost.

Failover runs, failbacks, comparisons, drills and connection tests share it. A run is stored first
and then queued, so a lost message or worker costs seconds. Pages and REST send no message: the
service that stores the request sends it once, after the commit.

- Each transition is a compare-and-set on the row: of two workers one wins.
- A run that stays queued has lost its message; a sweep queues it again.
- A run without heartbeats has lost its worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import UnderstudyError
from mirrors.models import Flow, claim
from mirrors.models.audit.transitions import note, record
from mirrors.models.base import RunLifecycle
from mirrors.services.access.approvals import check_approver
from mirrors.services.errors import Conflict

WAITING = "Waiting for a worker."
# The same in every kind of run.
QUEUED, ABORTED = "queued", "aborted"
# A run that is queued for longer has lost its message.
ASK_AGAIN_AFTER = timedelta(seconds=5)

Run = TypeVar("Run", bound=RunLifecycle)


class Stopped(UnderstudyError):
    """The run must stop: somebody aborted or ended it."""

    code = "stopped"


def request(model: type[Run], *, refusal: str, who: str, noted: str, **facts: Any) -> Run:
    """Store the run that a worker takes, and send its message after the commit.

    A flow has one open run: Conflict with `refusal` otherwise. `noted` goes to the audit log.
    """
    with single_open_run(refusal):
        run: Run = model._default_manager.create(
            **{"reason": WAITING, **facts, "requested_by": who[:150]}
        )
        record(run, field="state", before="", who=who, why=noted)
        if run.task and run.state == QUEUED:  # type: ignore[attr-defined]
            enqueue(run)
    return run


def enqueue(run: RunLifecycle) -> None:
    """Let a worker claim or continue the run."""
    send_on_commit(run.task, run.pk)


def send_on_commit(task: str, *args: Any) -> None:
    """Send a task by its name after the commit; an unreachable queue is logged, never an error.

    A sweep finds runs and decisions that wait for a worker, and sends the task again.
    """

    def send() -> None:
        current_app.signature(task, args=args).delay()

    transaction.on_commit(send, robust=True)


@contextmanager
def single_open_run(refusal: str) -> Iterator[None]:
    """For an insert under a constraint of one open row per flow: Conflict when there is one."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise Conflict(refusal) from None


def claim_queued(rows: QuerySet[Run], *, state: str, reason: str, **changes: Any) -> bool:
    """Take the queued run of `rows`; False when another worker has it."""
    return claim(rows, state=state, reason=reason, who=WORKER, changes=changes)


def heartbeat(rows: QuerySet[Run], **known: Any) -> str:
    """Store a sign of life with progress; returns why the worker must stop, or an empty string.

    `rows` selects the run only while this worker has it.
    """
    if not rows.update(seen_at=timezone.now(), **known):
        return "Another process ended the run."
    if not any(field.name == "abort_asked_by" for field in rows.model._meta.concrete_fields):
        return ""
    asked = rows.values_list("abort_asked_by", flat=True).first()
    return f"Aborted by {asked}." if asked else ""


def end(rows: QuerySet[Run], *, state: str, reason: str, who: str = WORKER, **known: Any) -> bool:
    """End the open run of `rows`; False when it has ended already."""
    changes = {"ended_at": timezone.now(), **known}
    return claim(rows, state=state, reason=reason, who=who, changes=changes)


def ask_to_abort(rows: QuerySet[Run], *, who: str, why: str, **at_once: Any) -> bool:
    """Abort a run.

    A queued run ends at once, `at_once` included: True. A worker's run stops at the worker's next
    heartbeat: False. Conflict when it has ended already.
    """
    reason, changes = why or f"Aborted by {who}.", {"abort_asked_by": who, **at_once}
    if end(rows.filter(state=QUEUED), state=ABORTED, reason=reason, who=who, **changes):
        return True
    run = rows.filter(ended_at=None).first()
    if run is None or not rows.filter(ended_at=None).update(abort_asked_by=who):
        raise Conflict("This run has already ended; there is nothing to abort.")
    # The worker that ends it is not who decided that.
    note(run, what="abort asked", who=who, why=why)
    return False


def approve(
    rows: QuerySet[Run], *, flow: Flow, requested_by: str, state: str, who: str, **changes: Any
) -> bool:
    """Approve the waiting run of `rows`, as a second person; False when it does not wait."""
    check_approver(flow=flow, requested_by=requested_by, who=who)
    return claim(rows, state=state, reason=f"Approved by {who}.", who=who, changes=changes)


def unclaimed_runs(rows: QuerySet[Run], *, now: datetime, since: str = "created_at") -> list[int]:
    """Queued runs that no worker took, to be queued again: their message may be lost."""
    late = rows.filter(**{f"{since}__lt": now - ASK_AGAIN_AFTER})
    return list(late.values_list("pk", flat=True))


def lost_runs(rows: QuerySet[Run], *, now: datetime, after: timedelta) -> QuerySet[Run]:
    """Runs of workers without a heartbeat for longer than `after`."""
    return rows.filter(seen_at__lt=now - after)


def unexpected_error_text(error: Exception) -> str:
    """The sentence for an unexpected error; the traceback is in the log."""
    detail = str(error)[:300] or "it did not end in time"
    return f"Unexpected {type(error).__name__}: {detail}. The worker's log has the traceback."
