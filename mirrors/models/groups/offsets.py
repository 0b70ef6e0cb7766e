"""Consumer groups of a flow on both clusters: offsets, checkpoints, offset syncs."""

from __future__ import annotations

from django.db import models

from mirrors.domain.groups.reasons import name_of
from mirrors.models.access.grants import Owned
from mirrors.models.flows import Flow
from mirrors.models.offsets import PartitionMap

# Kafka does not limit the length of a group's name; the database's index does.
LONGEST_GROUP = 500
# Means the group as a whole, where none of its partitions is known.
NO_PARTITION = -1
# The flow does not replicate these, so a missing group-partition on the target is no fault.
LEFT_OUT = ("excluded", "not_copied")


class GroupOffset(Owned):
    """One group-partition of the source, as the sync tasks last saw it.

    A group that is excluded or has no offset is one row without topic and partition. `wrote` is
    the offset that the flow committed on the target, null when it never did. `source_lag` and
    `re_reads` are null while unknown. With routes, a group-partition has a row for each target
    topic. `source_state` is the group's state in the last listing.
    `offset_since`: from when on each survey found this offset on the source. `source_unread`: the
    source did not tell the offset, and no earlier one is known. Otherwise a null `source_offset`
    means that the group has none.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="groups")
    group = models.CharField(max_length=LONGEST_GROUP)
    topic = models.CharField(max_length=255, blank=True)
    partition = models.IntegerField(default=NO_PARTITION)
    # The target topic, if a rule names it; empty for the topic that the policy names.
    route = models.CharField(max_length=255, blank=True, default="", db_default="")
    # The remote name may be longer than Kafka allows.
    remote_topic = models.TextField(blank=True)
    source_offset = models.BigIntegerField(null=True)
    translated_offset = models.BigIntegerField(null=True)
    target_offset = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=16, blank=True)
    sync_state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    wrote = models.BigIntegerField(null=True)
    source_lag = models.BigIntegerField(null=True)
    re_reads = models.BigIntegerField(null=True)
    source_state = models.CharField(max_length=32, blank=True)
    offset_since = models.DateTimeField(null=True)
    source_unread = models.BooleanField(default=False, db_default=False)
    as_of = models.DateTimeField()

    class Meta:
        ordering = ("group", "topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "group", "topic", "partition", "route"],
                name="one_row_per_group_place_and_route",
            ),
        )

    def __str__(self) -> str:
        return name_of(self.group, self.topic, self.partition, self.route)


class KnownCheckpoint(Owned):
    """The last MM2 checkpoint of a group and remote partition; `topic` is the remote topic."""

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
        return f"checkpoint of {name_of(self.group, self.topic, self.partition)}"


class GroupBookmark(Owned):
    """How far a flow's checkpoints were read, and which offset-syncs topic is written.

    Both with the topic id: for a recreated topic the stored offset does not apply.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="group_bookmark")
    checkpoints_id = models.CharField(max_length=64, blank=True)
    checkpoints_next = models.BigIntegerField(default=0)
    syncs_id = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"bookmark of flow {self.flow_id}"


class SyncedPartition(Owned):
    """How far a map's offset syncs are written: the last record, and the last sync's record."""

    parent = "map"

    map = models.OneToOneField(PartitionMap, on_delete=models.CASCADE, related_name="synced")
    upstream = models.BigIntegerField()
    downstream = models.BigIntegerField()
    synced = models.BigIntegerField()

    def __str__(self) -> str:
        return f"offset syncs up to {self.upstream}"
