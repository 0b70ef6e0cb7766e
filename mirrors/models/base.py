"""Bases of rows: a state field with its declared machine, runs, and findings to decide on."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.state_machine import ForbiddenTransition, StateMachine

log = logging.getLogger(__name__)


class StateField(models.CharField):
    """A state of `machine`: choices and default follow from its declaration.

    `models.transitions` writes it and refuses transitions that the machine does not declare.
    Migrations see a plain CharField, so a new declaration changes no column.
    """

    def __init__(self, machine: StateMachine, default: str) -> None:
        self.machine = machine
        super().__init__(max_length=16, choices=machine.choices, default=str(default))

    def clone(self) -> StateField:
        return StateField(self.machine, self.default)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs


class RunLifecycle(models.Model):
    """A run: a person requests it, one worker claims it, sends heartbeats, and ends it once.

    `reason` says why the run is in its state. A run without `ended_at` is open.
    `services.run_lifecycle` has the operations that all kinds of runs share.
    """

    # The Celery task that claims a queued run by its id; empty where a sweep begins it.
    task: ClassVar[str] = ""

    reason = models.TextField(blank=True)
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


class WorkerRun(RunLifecycle):
    """A run whose worker sends heartbeats: `seen_at` is the last one, `why` the person's reason."""

    since = models.DateTimeField(default=timezone.now)
    why = models.CharField(max_length=500, blank=True)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


READING_LOST_AFTER = timedelta(seconds=30)


READING_STATES = [(state, state) for state in ("requested", "read", "failed", "lost")]


class Reading(models.Model):
    """What a worker reads from clusters for a person, and that changes nothing.

    `error`: why a cluster could not be read; empty otherwise.
    """

    # A reading that has not ended by then has lost its message or its worker.
    lost_after: ClassVar = READING_LOST_AFTER

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        abstract = True

    def state_at(self, now: datetime) -> str:
        """requested, read, failed, or lost: no worker ended it in time."""
        if self.ended_at is not None:
            return "failed" if self.error else "read"
        return "lost" if now - self.requested_at > self.lost_after else "requested"


class Decision(models.Model):
    """Who decided on a finding, when, and why. Without `decided_at` nobody has."""

    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    decided_why = models.TextField(blank=True)

    class Meta:
        abstract = True


def check_transition(row: models.Model, field: str, before: str, after: str) -> None:
    """Raise ForbiddenTransition if the field's machine does not declare the transition.

    - An empty `before`: `after` is the first state of a new row.
    - An observed state is a fact: an undeclared transition is logged and stored, so that no
      surprising row stops a reconciler.
    """
    if (machine := machine_of(type(row), field)) is None:
        return
    try:
        if before:
            machine.check(before, after)
        else:
            machine.check_initial(after)
    except ForbiddenTransition as error:
        if not machine.is_observed:
            raise
        log.error("%s of %s: %s in its declaration; stored", field, row, error)


def machine_of(model: type[models.Model], field: str) -> StateMachine | None:
    """The declared machine of a state field; None for a field without one."""
    return getattr(model._meta.get_field(field), "machine", None)


def move(row: Any, state: str) -> None:
    """Set `row.state` without an audit entry; the caller saves it."""
    check_transition(row, "state", row.state, state)
    row.state = state


def move_all(rows: QuerySet[Any], *, state: str, **changes: Any) -> int:
    """Update rows without an audit entry. Rows that may not enter the state stay as they are."""
    if machine := machine_of(rows.model, "state"):
        rows = rows.filter(state__in=machine.predecessors(state))
    return rows.update(state=state, **changes)
