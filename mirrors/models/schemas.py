"""Rows of synchronized schemas: the last comparison, subjects, and the ids on both sides."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import QuerySet

from mirrors.domain.schemas.plan import State
from mirrors.domain.schemas.status import SchemaStatus, schema_problem
from mirrors.domain.settings.sync import SCHEMAS, SCHEMAS_INTERVAL
from mirrors.domain.settings.table import KEYS
from mirrors.models.access.grants import Owned
from mirrors.models.flows import Flow


class SchemaSync(Owned):
    """The registries of a flow as last compared.

    - `error`: why they could not be compared since `as_of`; the figures are those of `as_of`.
    - `keeps_ids`: whether new schemas keep their ids; null before the first comparison.
    - `import_refused`: the sentence with which the target's registry refused import mode.
    - `importing`: subjects that the flow put into import mode, with the mode to restore.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="schemas")
    as_of = models.DateTimeField(null=True)
    # When a person requested a comparison that no worker has made yet.
    asked_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    keeps_ids = models.BooleanField(null=True)
    ids_reason = models.TextField(blank=True)
    import_refused = models.TextField(blank=True)
    importing = models.JSONField(default=dict)
    changes = models.JSONField(default=list)
    left_out = models.JSONField(default=list)
    subjects = models.PositiveIntegerField(default=0)
    pending = models.PositiveIntegerField(default=0)
    conflicts = models.PositiveIntegerField(default=0)
    # The reason of the first conflict.
    conflict = models.TextField(blank=True)
    unread = models.PositiveIntegerField(default=0)
    other_ids = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"schemas of flow {self.flow_id}"

    @property
    def state(self) -> State:
        """`in_sync` only if every selected subject was read and nothing differs."""
        if self.as_of is None or self.error or self.unread:
            return "unknown"
        if self.conflicts:
            return "conflict"
        return "pending" if self.pending else "in_sync"


class SchemaSubject(Owned):
    """One subject as last compared.

    `level`, `listed`: the compatibility level and the versions on the target as the flow left them.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="schema_subjects")
    subject = models.TextField()
    target_subject = models.TextField(blank=True)
    state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    # Why the target's registry refused the last change; empty once it is made.
    refusal = models.TextField(blank=True)
    versions = models.PositiveIntegerField()
    present = models.PositiveIntegerField()
    other_ids = models.PositiveIntegerField()
    level = models.CharField(max_length=64, blank=True)
    listed = models.JSONField(default=list)

    class Meta:
        ordering = ("subject",)

    def __str__(self) -> str:
        return self.subject


class SchemaId(Owned):
    """A schema on the source and the same one on the target, each with its version and id.

    `digest`, `references`: of the source's schema, so that it need not be read each time.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="schema_ids")
    subject = models.TextField()
    version = models.PositiveIntegerField()
    source_id = models.BigIntegerField()
    target_subject = models.TextField()
    target_version = models.PositiveIntegerField()
    target_id = models.BigIntegerField()
    kind = models.CharField(max_length=16)
    digest = models.CharField(max_length=64)
    references = models.JSONField(default=list)
    read_at = models.DateTimeField()

    class Meta:
        ordering = ("subject", "version")
        indexes = (models.Index(fields=["flow", "source_id"], name="schema_ids_by_source_id"),)

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


def with_schemas(flows: QuerySet[Any]) -> QuerySet[Any]:
    """The same flows with the columns that `schema_problem_of` needs."""
    return flows.select_related("schemas").defer("schemas__changes", "schemas__left_out")


def syncs_schemas(flow: Any) -> bool:
    return str(flow.properties.get(SCHEMAS, "")).strip().lower() == "true"


def schema_problem_of(flow: Any, now: datetime) -> str:
    """Why consumers on the target may lack a schema; empty if schemas are not synchronized."""
    given = flow.properties
    if not syncs_schemas(flow):
        return ""
    row: SchemaSync = getattr(flow, "schemas", None) or SchemaSync()
    every = str(given.get(SCHEMAS_INTERVAL) or KEYS[SCHEMAS_INTERVAL].default)
    status = SchemaStatus(
        age=None if row.as_of is None else now - row.as_of,
        every=timedelta(seconds=int(every)),
        error=row.error,
        pending=row.pending,
        conflicts=row.conflicts,
        conflict=row.conflict,
        unread=row.unread,
        other_ids=row.other_ids,
        maps_ids="target_schema" in str(given.get("transforms", "")),
    )
    return schema_problem(status, flow.target.alias)
