"""The consumer groups that flows know on a cluster: their names, and of some how many places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import Count, Max, Min, Q, QuerySet

from mirrors.models.clusters import Cluster
from mirrors.models.groups import GroupOffset

# So many groups are looked up one by one. With more, which have few places each, it is less work
# to read all places.
MOST_LEAPS = 3_000


def groups_of(cluster: Cluster) -> QuerySet[Any]:
    """One row a group: on a source all that were seen there, on a target those that are there."""
    return _counted(_seen_on(cluster))


def groups_named(cluster: Cluster, known: dict[str, set[int]], names: list[str]) -> QuerySet[Any]:
    """Those of `flows_by_group` with these names, by name."""
    flows = {flow for name in names for flow in known[name]}
    rows = _seen_on(cluster).filter(flow__in=flows, group__in=names)
    return _counted(rows).order_by("group")


def flows_by_group(cluster: Cluster) -> dict[str, set[int]]:
    """Their names in order, each with the flows that know it: less work than to count places."""
    found: dict[str, set[int]] = {}
    leapt = _leapt(cluster)
    for group, flow in _read(cluster) if leapt is None else leapt:
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


def _read(cluster: Cluster) -> Iterable[tuple[str, int]]:
    return _seen_on(cluster).order_by("group").values_list("group", "flow").distinct()


def _leapt(cluster: Cluster) -> list[tuple[str, int]] | None:
    """From each group of a flow to its next one by the index, past all its places.

    None when there are too many for that. The ORM has no query that goes on from what it found.
    """
    key, leaps = cluster.pk, MOST_LEAPS + 1
    with connection.cursor() as cursor:
        cursor.execute(_LEAPS, [key, key, key, leaps])
        rows = cursor.fetchall()
    if len(rows) == leaps:
        return None
    return [(group, flow) for group, flow, is_there in rows if is_there]


# DISTINCT keeps SQLite from sorting before it stops: it would have to leap through all for that.
_LEAPS = """
WITH RECURSIVE known(flow, reads, name) AS (
  SELECT f.id, f.source_id = %s,
    (SELECT MIN(g."group") FROM mirrors_groupoffset g WHERE g.flow_id = f.id)
  FROM mirrors_flow f WHERE f.source_id = %s OR f.target_id = %s
  UNION ALL
  SELECT k.flow, k.reads,
    (SELECT MIN(g."group") FROM mirrors_groupoffset g
     WHERE g.flow_id = k.flow AND g."group" > k.name)
  FROM known k WHERE k.name IS NOT NULL
), leapt(name, flow, there) AS (
  SELECT k.name, k.flow, k.reads OR
    (SELECT g.id FROM mirrors_groupoffset g
     WHERE g.flow_id = k.flow AND g."group" = k.name AND g.target_offset IS NOT NULL LIMIT 1)
    IS NOT NULL
  FROM known k WHERE k.name IS NOT NULL LIMIT %s
)
SELECT DISTINCT name, flow, there FROM leapt ORDER BY name
"""
