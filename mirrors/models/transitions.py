"""Transition: the audit log of state changes. `claim`: the compare-and-set that changes a state."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from mirrors.models.base import check_transition
from mirrors.models.failover import FailoverRun
from mirrors.models.flows import Flow


class Transition(models.Model):
    """One change of one state field. Rows outlive their subject."""

    subject = models.CharField(max_length=32)
    subject_id = models.BigIntegerField()
    field = models.CharField(max_length=32)
    name = models.CharField(max_length=255)
    who = models.CharField(max_length=150)
    when = models.DateTimeField()
    from_state = models.CharField(max_length=32, blank=True)
    to_state = models.CharField(max_length=32)
    why = models.TextField(blank=True)

    class Meta:
        indexes = (models.Index(fields=["subject", "subject_id", "-id"], name="transition_of"),)
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.name}: {self.from_state} to {self.to_state}"


def record(row: models.Model, *, field: str, before: str, who: str, why: str) -> None:
    """Log a state that a row got without `claim`: its first one."""
    check_transition(row, field, before, getattr(row, field))
    _write(row, field=field, before=before, after=getattr(row, field), who=who, why=why)


def note(row: models.Model, *, what: str, who: str, why: str) -> None:
    """Log an action that changes no state: created, edited, deleted."""
    _write(row, field="settings", before="", after=what, who=who, why=why)


def _write(row: models.Model, *, field: str, before: str, after: str, who: str, why: str) -> None:
    Transition.objects.create(
        subject=row._meta.model_name or "",
        subject_id=row.pk,
        field=field,
        name=str(row)[:255],
        who=who[:150],
        when=timezone.now(),
        from_state=before,
        to_state=after,
        why=why,
    )


def claim(
    queryset: models.QuerySet[Any],
    *,
    reason: str,
    who: str,
    changes: dict[str, Any] | None = None,
    **state: str,
) -> bool:
    """Move the one row of `queryset` to a new state: True for the winner, False for all others.

    `state` names one field, e.g. `observed_state="running"`. The queryset carries what the caller
    expects (`filter(pk=…, observed_state="starting")`); a caller whose expectation is outdated
    loses. `reason`, `since` (where the row has them) and `changes` are written with the state, and
    the Transition in the same transaction. ForbiddenTransition: the field's machine does not
    declare this transition.
    """
    ((field, after),) = state.items()
    now = timezone.now()
    with transaction.atomic():
        row = queryset.select_for_update().first()
        if row is None:
            return False
        before = getattr(row, field)
        check_transition(row, field, before, after)
        written: dict[str, Any] = {**(changes or {}), field: after}
        known = {column.name for column in row._meta.concrete_fields}
        is_main = field != "desired_state"
        if is_main and "reason" in known:
            written.setdefault("reason", reason)
        if is_main and "since" in known and before != after:
            written.setdefault("since", now)
        if not queryset.filter(pk=row.pk, **{field: before}).update(**written):
            return False
        if before != after:
            for key, value in written.items():
                setattr(row, key, value)
            _write(row, field=field, before=before, after=after, who=who, why=reason)
        return True


# Values of `who` that name a process of this program, not a person.
PROCESSES = ("reconciler", "runner", "worker", "duty", "takeover")


def by_people(rows: QuerySet[Transition]) -> QuerySet[Transition]:
    return rows.exclude(who__in=PROCESSES)


def human_transitions(flow: Flow) -> QuerySet[Transition]:
    """What people did to a flow and to its failovers."""
    runs = FailoverRun.objects.filter(flow=flow).values("pk")
    of_runs = Q(subject="failoverrun", subject_id__in=runs)
    of_flow = Q(subject="flow", subject_id=flow.pk)
    return by_people(Transition.objects.filter(of_flow | of_runs))
