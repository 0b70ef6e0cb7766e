"""Gap: a range of source offsets that cannot be replicated (data loss), and the decision on it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mirrors.domain.states.findings import GAP, GapState
from mirrors.models.access.grants import Owned
from mirrors.models.base import Decision, StateField
from mirrors.models.flows import Flow


class GapKind(models.TextChoices):
    DELETED = "deleted"
    TRUNCATED = "truncated"
    RECREATED = "recreated"
    SOURCE_REPLACED = "source_replaced"
    REMOTE_RECREATED = "remote_recreated"
    REMOTE_MISSING = "remote_missing"
    REMOTE_WRITTEN = "remote_written"
    REMOTE_TRUNCATED = "remote_truncated"
    TARGET_REPLACED = "target_replaced"
    POSITIONS_LOST = "positions_lost"
    REFUSED = "refused"
    DAMAGED = "damaged"


class Gap(Decision, Owned):
    """Data loss of one partition. `accepted` and `restarted` wait for the runner until `closed_at`.

    `position` is the first upstream offset that was not replicated. A number that does not apply
    to the kind is null.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="gaps")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    kind = models.CharField(max_length=32, choices=GapKind)
    state = StateField(GAP, GapState.OPEN)
    reason = models.TextField(blank=True)
    position = models.BigIntegerField(null=True)
    first_available = models.BigIntegerField(null=True)
    source_end = models.BigIntegerField(null=True)
    first_lost = models.BigIntegerField(null=True)
    last_lost = models.BigIntegerField(null=True)
    count = models.BigIntegerField(null=True)
    # Facts that must still hold when the runner applies the decision.
    facts = models.JSONField(default=dict)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_why = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"],
                condition=Q(closed_at__isnull=True),
                name="one_gap_per_partition",
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
