"""TopicSample and PartitionSample: the history of topics, and of partitions not in sync."""

from __future__ import annotations

from django.db import models

from mirrors.models import Flow
from mirrors.models.access.grants import Owned
from monitoring.domain.history import TOPIC_RESOLUTIONS


class TopicSample(Owned):
    """One topic, one step: what it owed, and what was replicated since its sample before.

    A step in which nothing was replicated or owed has no row. An hour has the worst of its minutes,
    and the sum of what was replicated.
    """

    flow = models.ForeignKey(
        Flow, on_delete=models.CASCADE, related_name="topic_samples", db_index=False
    )
    topic = models.CharField(max_length=255)
    resolution = models.PositiveSmallIntegerField(
        choices=[(one.seconds, f"{one.seconds} s") for one in TOPIC_RESOLUTIONS]
    )
    at = models.DateTimeField()
    # The known sum: a lower bound unless `unknown_partitions` is 0.
    owed = models.BigIntegerField()
    time_lag_ms = models.BigIntegerField(null=True)
    unknown_partitions = models.PositiveIntegerField(default=0)
    records = models.BigIntegerField()
    bytes = models.BigIntegerField()

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "resolution", "at"], name="one_sample_a_topic_and_step"
            ),
        )
        indexes = (models.Index(fields=["resolution", "at"], name="topic_samples_by_age"),)

    def __str__(self) -> str:
        return f"{self.topic} of flow {self.flow_id} at {self.at}"


class PartitionSample(Owned):
    """One partition that was not in sync, one step: what it owed at worst."""

    flow = models.ForeignKey(
        Flow, on_delete=models.CASCADE, related_name="partition_samples", db_index=False
    )
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    resolution = models.PositiveSmallIntegerField(
        choices=[(one.seconds, f"{one.seconds} s") for one in TOPIC_RESOLUTIONS]
    )
    at = models.DateTimeField()
    # Null: unknown.
    owed = models.BigIntegerField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition", "resolution", "at"],
                name="one_sample_a_partition_and_step",
            ),
        )
        indexes = (models.Index(fields=["resolution", "at"], name="partition_samples_by_age"),)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} of flow {self.flow_id} at {self.at}"


class FullStep(models.Model):
    """A step that has as many samples as it may have: a topic, or a partition, without one may
    have owed records. An hour is full if one of its minutes was."""

    of_topics = models.BooleanField()
    resolution = models.PositiveSmallIntegerField()
    at = models.DateTimeField()

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=["of_topics", "resolution", "at"], name="one_row_a_full_step"
            ),
        )

    def __str__(self) -> str:
        return f"{'topics' if self.of_topics else 'partitions'}, {self.resolution} s, {self.at}"
