"""Consumer groups of a cluster, over all its flows: their names in order, and their totals."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet

from mirrors.models.clusters import Cluster
from mirrors.models.groups.offsets import GroupOffset
from mirrors.models.groups.summaries import GroupSummary


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
    there = Q(flow__source=cluster) | Q(flow__target=cluster, on_target__gt=0)
    rows = GroupSummary.objects.filter(there).order_by("group")
    found: dict[str, set[int]] = {}
    for group, flow in rows.values_list("group", "flow"):
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
