"""Prices of transfer between clusters, and what each topic sent in a month."""

from __future__ import annotations

from django.db import models
from django.db.models import Exists, OuterRef, Q

from mirrors.domain.access.grants import Reach
from mirrors.domain.access.rights import Right
from mirrors.models import Cluster, Flow
from mirrors.models.access.grants import Owned
from mirrors.models.base import Reading


class TransferPrice(Owned):
    """Price per gigabyte from one cluster to another, and the budget of a month."""

    source = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    target = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    per_gb = models.DecimalField(max_digits=12, decimal_places=6)
    currency = models.CharField(max_length=3)
    monthly_budget = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["source", "target"], name="one_price_a_pair"),
        )

    def __str__(self) -> str:
        return f"{self.source_id}->{self.target_id}: {self.per_gb} {self.currency}"

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """The price of each flow on which the right is held."""
        of_pair = {"source": OuterRef("source"), "target": OuterRef("target")}
        return Q(Exists(Flow.objects.filter(Flow.rows_reached(where, right), **of_pair)))


class CompressionReading(Reading, Owned):
    """The last measurement of how a flow's largest topics compress on the target.

    `samples`: the fields of `CompressionSample` by source topic. `failed`: why a topic has none.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="compression")
    samples = models.JSONField(default=dict)
    failed = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"compression of flow {self.flow_id}"


class MonthlyUsage(Owned):
    """Bytes that a topic sent to the target in a month (UTC), up to its last sample.

    `since` and `until` are the start of its first and the end of its last counted minute.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="usage", db_index=False)
    topic = models.CharField(max_length=255)
    month = models.DateField()
    bytes = models.BigIntegerField()
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "month"], name="one_usage_a_topic_and_month"
            ),
        )
        indexes = (models.Index(fields=["month", "flow"], name="usage_by_month"),)

    def __str__(self) -> str:
        return f"{self.topic} of flow {self.flow_id} in {self.month:%Y-%m}"
