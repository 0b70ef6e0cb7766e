"""FlowAccount: what a flow owes in all, as of its newest revision."""

from __future__ import annotations

from django.db import models

from mirrors.domain.account.totals import Total
from mirrors.models.flows import Flow, epoch_ms


class FlowAccount(models.Model):
    """The sum over the flow's topics, written in one transaction with their rows.

    `records` sums the known amounts, `unknown` counts the topic-partitions without one;
    `observed_at` is the oldest observation of the source in the sum, null where there is none.
    `states` counts topic-partitions by their account state.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="account")
    revision = models.PositiveBigIntegerField(default=0)
    as_of = models.DateTimeField()
    # From a sweep of the source, since no runner reports a plan; else from a runner's report.
    is_swept = models.BooleanField(default=False)
    records = models.BigIntegerField(default=0)
    least = models.BigIntegerField(default=0)
    unknown = models.PositiveIntegerField(default=0)
    certainty = models.CharField(max_length=16, default="unknown")
    observed_at = models.DateTimeField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)
    partitions = models.PositiveIntegerField(default=0)
    states = models.JSONField(default=dict)
    # Names of the first few topics with an unknown amount.
    unknown_topics = models.JSONField(default=list)
    topics_copied = models.PositiveIntegerField(default=0)
    topics_left_out = models.PositiveIntegerField(default=0)
    # Topics that replication alone will not copy: a person has to act.
    topics_blocked = models.PositiveIntegerField(default=0)
    worst_topic = models.CharField(max_length=255, blank=True)
    # Why the principal sees no topic, or not those that the filters name; empty when it does.
    not_visible = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"account of flow {self.flow_id}"

    @property
    def total(self) -> Total:
        return Total(
            records=self.records,
            least=self.least,
            unknown=self.unknown,
            certainty=self.certainty,  # type: ignore[arg-type]
            observed_at=epoch_ms(self.observed_at),
            time_lag_ms=self.time_lag_ms,
            partitions=self.partitions,
            states=self.states,
            unknown_topics=tuple(self.unknown_topics),
        )
