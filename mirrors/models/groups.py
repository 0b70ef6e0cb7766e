"""Consumer groups of a flow on both sides, and what was last written about them."""

from __future__ import annotations

from django.db import models

from mirrors.models.flows import Flow
from mirrors.models.offsets import PartitionMap

# Kafka sets no limit to a group's name; the database's index does.
LONGEST_GROUP = 500
# Stands for the group as a whole, where no partition of it is known.
NO_PARTITION = -1


class GroupOffset(models.Model):
    """One group in one partition of a source topic, as the duties last saw it.

    A group that is left out, or has no offset anywhere, is one row without topic and partition.
    `wrote` is where we put the group on the target, null when we never did.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="groups")
    group = models.CharField(max_length=LONGEST_GROUP)
    topic = models.CharField(max_length=255, blank=True)
    partition = models.IntegerField(default=NO_PARTITION)
    # What it would be called may be longer than Kafka allows.
    remote_topic = models.TextField(blank=True)
    source_offset = models.BigIntegerField(null=True)
    translated_offset = models.BigIntegerField(null=True)
    target_offset = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=16, blank=True)
    sync_state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    wrote = models.BigIntegerField(null=True)
    as_of = models.DateTimeField()

    class Meta:
        ordering = ("group", "topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "group", "topic", "partition"], name="one_row_per_group_place"
            ),
        )

    def __str__(self) -> str:
        return f"{self.group} in {self.topic}-{self.partition}"


class KnownCheckpoint(models.Model):
    """The last checkpoint of a group and remote partition; `topic` is the name on the target."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="checkpoints")
    group = models.CharField(max_length=LONGEST_GROUP)
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    upstream = models.BigIntegerField()
    downstream = models.BigIntegerField()
    metadata = models.TextField(blank=True)

    class Meta:
        ordering = ("group", "topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "group", "topic", "partition"], name="one_checkpoint_per_place"
            ),
        )

    def __str__(self) -> str:
        return f"checkpoint of {self.group} in {self.topic}-{self.partition}"


class GroupBookmark(models.Model):
    """How far a flow's checkpoints were read, and which topic of offset syncs is written.

    Both by topic id: for a topic that was made anew nothing remembered counts.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="group_bookmark")
    checkpoints_id = models.CharField(max_length=64, blank=True)
    checkpoints_next = models.BigIntegerField(default=0)
    syncs_id = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"bookmark of flow {self.flow_id}"


class SyncedPartition(models.Model):
    """How far MM2's offset syncs of a map are written: its last record, and the last sync's."""

    map = models.OneToOneField(PartitionMap, on_delete=models.CASCADE, related_name="synced")
    upstream = models.BigIntegerField()
    downstream = models.BigIntegerField()
    synced = models.BigIntegerField()

    def __str__(self) -> str:
        return f"offset syncs up to {self.upstream}"
