"""Consumer groups of a flow on both clusters: offsets, checkpoints, offset syncs; group queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection, models
from django.db.models import Count, Max, Min, Q, QuerySet

from mirrors.models.access.grants import Owned, sees_everything
from mirrors.models.clusters import Cluster
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
    `offset_since`: from when on each survey found this offset on the source.
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
    as_of = models.DateTimeField()

    class Meta:
        ordering = ("group", "topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "group", "topic", "partition", "route"],
                name="one_row_per_group_place_and_route",
            ),
        )
        # All that sorts the list of groups: with it a page reads the index instead of all rows.
        indexes = (
            models.Index(
                fields=["flow", "group", "sync_state", "partition", "source_lag"],
                name="order_of_groups",
            ),
        )

    def __str__(self) -> str:
        return f"{self.group} in {self.topic}-{self.partition}"


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
        return f"checkpoint of {self.group} in {self.topic}-{self.partition}"


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


# Up to this many groups the query jumps from group to group in the index. More groups have few
# partitions each, so reading all rows costs less.
MAX_SKIPS = 3_000


def groups_of(cluster: Cluster) -> QuerySet[Any]:
    """One row per group: on a source all that were seen, on a target those with an offset."""
    return _counted(_seen_on(cluster))


def groups_named(cluster: Cluster, known: dict[str, set[int]], names: list[str]) -> QuerySet[Any]:
    """The groups of `flows_by_group` with these names, ordered by name."""
    flows = {flow for name in names for flow in known[name]}
    rows = _seen_on(cluster).filter(flow__in=flows, group__in=names)
    return _counted(rows).order_by("group")


def flows_by_group(cluster: Cluster) -> dict[str, set[int]]:
    """Group names in order, each with the flows that know it; cheaper than counting partitions."""
    found: dict[str, set[int]] = {}
    # The scan is a statement of its own, which no manager filters.
    pairs = _index_skip_scan(cluster) if sees_everything() else None
    for group, flow in _full_scan(cluster) if pairs is None else pairs:
        found.setdefault(group, set()).add(flow)
    return found


def _seen_on(cluster: Cluster) -> QuerySet[Any]:
    there = Q(flow__source=cluster) | Q(flow__target=cluster, target_offset__isnull=False)
    return GroupOffset.objects.filter(there).order_by()


def _counted(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.values("group").annotate(
        topics=Count("topic", distinct=True, filter=~Q(topic="")),
        places=Count("pk", filter=~Q(topic="")),
        flows=Count("flow", distinct=True),
        moved=Count("pk", filter=Q(sync_state__in=("in_sync", "moved"))),
        last_seen=Max("as_of"),
        flow=Min("flow_id"),
    )


def _full_scan(cluster: Cluster) -> Iterable[tuple[str, int]]:
    return _seen_on(cluster).order_by("group").values_list("group", "flow").distinct()


def _index_skip_scan(cluster: Cluster) -> list[tuple[str, int]] | None:
    """Pairs of group and flow, by a loose index scan: from each group to the next one.

    None when there are more than `MAX_SKIPS`. The ORM has no recursive queries.
    """
    key, limit = cluster.pk, MAX_SKIPS + 1
    with connection.cursor() as cursor:
        cursor.execute(_SKIP_SCAN, [key, key, key, limit])
        rows = cursor.fetchall()
    if len(rows) == limit:
        return None
    return [(group, flow) for group, flow, is_there in rows if is_there]


# DISTINCT keeps SQLite from sorting before the limit applies, which would scan everything.
_SKIP_SCAN = """
WITH RECURSIVE known(flow, reads, name) AS (
  SELECT f.id, f.source_id = %s,
    (SELECT MIN(g."group") FROM mirrors_groupoffset g WHERE g.flow_id = f.id)
  FROM mirrors_flow f WHERE f.source_id = %s OR f.target_id = %s
  UNION ALL
  SELECT k.flow, k.reads,
    (SELECT MIN(g."group") FROM mirrors_groupoffset g
     WHERE g.flow_id = k.flow AND g."group" > k.name)
  FROM known k WHERE k.name IS NOT NULL
), pairs(name, flow, there) AS (
  SELECT k.name, k.flow, k.reads OR
    (SELECT g.id FROM mirrors_groupoffset g
     WHERE g.flow_id = k.flow AND g."group" = k.name AND g.target_offset IS NOT NULL LIMIT 1)
    IS NOT NULL
  FROM known k WHERE k.name IS NOT NULL LIMIT %s
)
SELECT DISTINCT name, flow, there FROM pairs ORDER BY name
"""
