"""Drift: what somebody changed on a flow's target by hand, and what was decided about it.

Beside it what tells that from the source's news: how the flow left each remote topic, which access
rules it made, and who has seen which it would make.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mirrors.models.flows import Flow


class DriftKind(models.TextChoices):
    TOPIC_CONFIG = "topic config"
    PARTITIONS = "partitions"
    DELETED_TOPIC = "deleted topic"
    ACL = "acl"


class DriftState(models.TextChoices):
    OPEN = "open"
    ACCEPTED = "accepted"
    IGNORED = "ignored"
    FIXING = "fixing"
    FIXED = "fixed"
    CLOSED = "closed"


class Drift(models.Model):
    """One finding. `expected` is how the flow last left it, `wanted` what it would make of it.

    Null stands for nothing there, or for the target's default. A finding is over with `closed_at`.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="drift")
    kind = models.CharField(max_length=16, choices=DriftKind)
    name = models.TextField()
    key = models.TextField(blank=True)
    # Names the place: principals and groups have names too long for an index.
    place = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=DriftState, default=DriftState.OPEN)
    expected = models.TextField(null=True)  # noqa: DJ001 (null: the default, or nothing)
    found = models.TextField(null=True)  # noqa: DJ001
    wanted = models.TextField(null=True)  # noqa: DJ001
    reason = models.TextField(blank=True)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_why = models.TextField(blank=True)
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    decided_why = models.TextField(blank=True)
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


class TopicBaseline(models.Model):
    """A remote topic as the flow last left it; a setting that is not named had its default."""

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


class CarriedAcl(models.Model):
    """An access rule that the flow made on its target, where none was before: it may take it away.

    Forgotten, it is nobody's: a rule that is not in this table is never taken away.
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
        return f"access rule {self.digest[:12]} of flow {self.flow_id}"


class AclPreview(models.Model):
    """Somebody has seen which access rules the flow would make; `shape` is what they depend on."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="acl_preview")
    shape = models.JSONField()
    digest = models.CharField(max_length=64)
    who = models.CharField(max_length=150)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"access rules of flow {self.flow_id}, seen by {self.who}"
