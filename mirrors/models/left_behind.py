"""LeftBehind: a person's decision that a failover leaves a topic or partition on the source."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mirrors.domain.failover.decisions import LeftBehind as Decision
from mirrors.models.flows import Flow

# Stands for all partitions of the topic.
WHOLE_TOPIC = -1


class LeftBehind(models.Model):
    """It holds until somebody withdraws it; the row stays, since runs name the decision.

    `partition` is `WHOLE_TOPIC` where the decision is about all partitions of the topic.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="left_behind")
    topic = models.CharField(max_length=255)
    partition = models.IntegerField(default=WHOLE_TOPIC)
    reason = models.CharField(max_length=500)
    decided_by = models.CharField(max_length=150)
    decided_at = models.DateTimeField()
    withdrawn_by = models.CharField(max_length=150, blank=True, default="")
    withdrawn_at = models.DateTimeField(null=True)
    withdrawn_why = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"],
                condition=Q(withdrawn_at__isnull=True),
                name="one_decision_to_leave_behind",
            ),
        )

    def __str__(self) -> str:
        return self.topic if self.is_whole else f"{self.topic}-{self.partition}"

    @property
    def is_whole(self) -> bool:
        return self.partition == WHOLE_TOPIC

    @property
    def decision(self) -> Decision:
        """As the rules take it."""
        return Decision(
            topic=self.topic,
            partition=None if self.is_whole else self.partition,
            reason=self.reason,
            decided_by=self.decided_by,
            decided_at=round(self.decided_at.timestamp() * 1000),
        )
