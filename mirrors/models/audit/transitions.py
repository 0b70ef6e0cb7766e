"""Transition: the audit log of state changes. `claim`: the compare-and-set that changes a state."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from mirrors.domain.access.grants import INSTALLATION, Reach, Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.audit.actors import ACCOUNTS, ActorKind
from mirrors.models.access.grants import Owned, has_right
from mirrors.models.audit.chain import kind_and_token, origin
from mirrors.models.base import check_transition
from mirrors.models.failover import FailoverRun
from mirrors.models.flows import Flow, Job

# Kinds of subjects whose entries a person may read who has a grant on the row.
_OF_ROWS = (
    *("flow", "job", "failoverrun", "failback", "gap", "drill", "drillrun", "comparison"),
    *("cluster", "clustertest"),
)


class Result(models.TextChoices):
    DONE = "done"
    REFUSED = "refused"


class Transition(Owned):
    """One entry of the audit log: a change of a state field, or an action. It outlives its subject.

    - `kind`: what `who` names. `reference` and `address`: of the request that caused the entry.
    - `detail`: `before` and `after` of what an action changed, and `token`, its first characters.
    - `position`, `digest`: its place in the chain, written once by `services.audit.chain`.
    """

    subject = models.CharField(max_length=32)
    subject_id = models.BigIntegerField()
    field = models.CharField(max_length=32)
    name = models.CharField(max_length=255)
    who = models.CharField(max_length=150)
    when = models.DateTimeField()
    from_state = models.CharField(max_length=32, blank=True)
    to_state = models.CharField(max_length=32)
    why = models.TextField(blank=True)
    kind = models.CharField(
        max_length=8,
        choices=[(kind.value, kind.value) for kind in ActorKind],
        default=ActorKind.PERSON,
        db_default=ActorKind.PERSON,
    )
    result = models.CharField(
        max_length=8, choices=Result, default=Result.DONE, db_default=Result.DONE
    )
    reference = models.CharField(max_length=64, blank=True, default="", db_default="")
    address = models.CharField(max_length=45, blank=True, default="", db_default="")
    detail = models.JSONField(null=True)
    position = models.BigIntegerField(null=True, unique=True)
    digest = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        indexes = (
            models.Index(fields=["subject", "subject_id", "-id"], name="transition_of"),
            models.Index(
                fields=["id"], condition=Q(position__isnull=True), name="transition_not_sealed"
            ),
        )
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.name}: {self.from_state} to {self.to_state}"

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """Entries of rows on which the right is held; those of accounts belong to no row."""
        found = Q(pk__in=())
        for name in _OF_ROWS:
            model: Any = apps.get_model("mirrors", name)
            found |= Q(subject=name, subject_id__in=model.within(where, right))
        return found

    @property
    def access_subject(self) -> Subject:
        return INSTALLATION

    @property
    def changes(self) -> list[str]:
        return changed_values(self.detail)


def changed_values(detail: dict[str, Any] | None) -> list[str]:
    """What an action changed, as `key: before → after`. A value that was not set says so."""
    before, after = ((detail or {}).get(side) or {} for side in ("before", "after"))
    pairs = {key: (_value(before.get(key)), _value(after.get(key))) for key in [*before, *after]}
    return [
        f"{_WORDS.get(key, key)}: {old} → {new}" for key, (old, new) in pairs.items() if old != new
    ]


_WORDS = {"is_active": "active", "is_staff": "staff", "is_superuser": "superuser"}


def _value(value: Any) -> str:
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def record(row: models.Model, *, field: str, before: str, who: str, why: str) -> None:
    """Log a state that a row got without `claim`: its first one."""
    check_transition(row, field, before, getattr(row, field))
    _write(row, field=field, before=before, after=getattr(row, field), who=who, why=why)


def note(
    row: models.Model,
    *,
    what: str,
    who: str,
    why: str,
    detail: dict[str, Any] | None = None,
) -> None:
    """Log an action that changes no state: created, edited, deleted."""
    _write(row, field="settings", before="", after=what, who=who, why=why, detail=detail)


def _write(
    row: models.Model,
    *,
    field: str,
    before: str,
    after: str,
    who: str,
    why: str,
    detail: dict[str, Any] | None = None,
) -> None:
    write_entry(
        subject=row._meta.model_name or "",
        subject_id=row.pk,
        field=field,
        name=str(row),
        who=who,
        from_state=before,
        to_state=after,
        why=why,
        detail=detail,
    )


def write_entry(
    *, who: str, name: str, to_state: str, detail: dict[str, Any] | None = None, **facts: Any
) -> None:
    """Store an entry about anything, with its origin; `who` is a Process or names a person."""
    kind, token = kind_and_token(who)
    if token:
        detail = {**(detail or {}), "token": token}
    source = origin.get()
    source.written.append(to_state)
    Transition.objects.create(
        who=who[:150],
        name=name[:255],
        to_state=to_state[:32],
        kind=kind,
        when=timezone.now(),
        reference=source.reference[:64],
        address=source.address[:45],
        detail=detail,
        **facts,
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


def by_people(rows: QuerySet[Transition]) -> QuerySet[Transition]:
    """Without what processes did; a failed sign-in and a changed account are always included."""
    return rows.exclude(~Q(field__in=ACCOUNTS), kind=ActorKind.PROCESS)


def visible_to(rows: QuerySet[Transition], user: Any) -> QuerySet[Transition]:
    """Entries about people, tokens and refused requests are for admins and auditors."""
    return rows if has_right(user, Right.AUDIT) else rows.exclude(field__in=ACCOUNTS)


def human_transitions(flow: Flow) -> QuerySet[Transition]:
    """What people did to a flow and to its failovers."""
    return by_people(Transition.objects.filter(_of_flow_and_runs(flow)))


def events_of(flow: Flow) -> QuerySet[Transition]:
    """All entries of a flow, its failovers and its jobs."""
    jobs = Job.objects.filter(flow=flow).values("pk")
    of_jobs = Q(subject="job", subject_id__in=jobs)
    return Transition.objects.filter(_of_flow_and_runs(flow) | of_jobs)


def _of_flow_and_runs(flow: Flow) -> Q:
    runs = FailoverRun.objects.filter(flow=flow).values("pk")
    of_runs = Q(subject="failoverrun", subject_id__in=runs)
    return Q(subject="flow", subject_id=flow.pk) | of_runs
