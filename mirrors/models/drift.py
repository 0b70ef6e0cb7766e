"""Drift: a value on a flow's target that somebody changed manually, and the decision about it.

The other rows tell drift from a change on the source: the last known state of each remote topic,
the ACLs that the flow created, and who previewed the ACLs that it would create. Readings of a
topic's configs and previews of rules are requested by people.
"""

from __future__ import annotations

import functools
import json
import zlib
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q

from mirrors.domain.states.findings import DRIFT, DriftState
from mirrors.models.access.grants import Owned
from mirrors.models.base import Decision, Reading, StateField
from mirrors.models.flows import Flow


class DriftKind(models.TextChoices):
    TOPIC_CONFIG = "topic config"
    PARTITIONS = "partitions"
    DELETED_TOPIC = "deleted topic"
    ACL = "acl"
    SCHEMA_LEVEL = "schema level"
    DELETED_SCHEMA = "deleted schema"
    FOREIGN_SCHEMA = "foreign schema"


class Drift(Decision, Owned):
    """One finding. `expected` is the value that the flow last set, `wanted` the one it would set.

    Null means absent, or the target's default. A finding with `closed_at` is closed.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="drift")
    kind = models.CharField(max_length=16, choices=DriftKind)
    name = models.TextField()
    key = models.TextField(blank=True)
    # A digest that identifies the value: names of principals and groups exceed an index.
    place = models.CharField(max_length=64)
    state = StateField(DRIFT, DriftState.OPEN)
    expected = models.TextField(null=True)  # noqa: DJ001 (null: the default, or nothing)
    found = models.TextField(null=True)  # noqa: DJ001
    wanted = models.TextField(null=True)  # noqa: DJ001
    reason = models.TextField(blank=True)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_why = models.TextField(blank=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "place"],
                condition=Q(closed_at__isnull=True),
                name="one_drift_per_place",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.key}" if self.key else self.name


class TopicBaseline(Owned):
    """A remote topic as the flow last left it; a setting that is not listed had its default."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="baselines")
    remote_topic = models.CharField(max_length=255)
    topic_id = models.CharField(max_length=64, blank=True)
    partitions = models.PositiveIntegerField()
    configs = models.JSONField(default=dict)

    class Meta:
        ordering = ("remote_topic",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "remote_topic"], name="one_baseline_per_remote_topic"
            ),
        )

    def __str__(self) -> str:
        return self.remote_topic


class CarriedAcl(Owned):
    """An ACL that the flow created on its target where none existed before.

    The flow deletes only ACLs of this table: any other one belongs to somebody else.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="carried_acls")
    rule = models.JSONField()
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=["flow", "digest"], name="one_row_per_carried_acl"),
        )

    def __str__(self) -> str:
        return f"ACL {self.digest[:12]} of flow {self.flow_id}"


class AclPreview(Owned):
    """Who previewed the ACLs that the flow would create; `shape` is what those depend on."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="acl_preview")
    shape = models.JSONField()
    digest = models.CharField(max_length=64)
    who = models.CharField(max_length=150)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"ACLs of flow {self.flow_id}, reviewed by {self.who}"


class TopicConfigs(Reading, Owned):
    """The last reading of one topic's configs on both clusters.

    `rows`: each a `ConfigRow`, differences first.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="topic_configs")
    topic = models.CharField(max_length=255)
    rows = models.JSONField(default=list)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["flow", "topic"], name="one_config_reading_a_topic"),
        )

    def __str__(self) -> str:
        return f"configs of {self.topic}"


class RulePreview(Reading, Owned):
    """Rules on records, evaluated on the newest records of one topic. Kept for an hour.

    - `rules`: the text of the property; `is_edited` if it is not the flow's own.
    - `request`: an `EvaluationRequest` as compressed JSON, while the runner has not answered.
    - `result`: what the answer shows, as compressed JSON. It holds records.
    """

    lost_after = timedelta(seconds=120)

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="rule_previews")
    topic = models.CharField(max_length=255)
    count = models.PositiveSmallIntegerField()
    rules = models.TextField()
    is_edited = models.BooleanField()
    # When the records were read.
    as_of = models.DateTimeField(null=True)
    request = models.BinaryField(null=True)
    # When the runner got the request.
    handed_at = models.DateTimeField(null=True)
    result = models.BinaryField(null=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"preview {self.pk} of rules on {self.topic}"

    @functools.cached_property
    def found(self) -> dict[str, Any]:
        """The stored result; empty without one."""
        if self.result is None:
            return {}
        found: dict[str, Any] = json.loads(zlib.decompress(bytes(self.result)))
        return found


class AppliedDocument(models.Model):
    """What a document of a file set when it was last applied, as the API showed it then.

    A field with another value now was changed by somebody else: drift.
    """

    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=255)
    spec = models.JSONField(default=dict)
    applied_by = models.CharField(max_length=150)
    applied_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["kind", "name"], name="one row per applied object"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
