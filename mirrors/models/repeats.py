"""At least once: how many records lie twice on a flow's target, over all its partitions."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery, Sum

from mirrors.models.flows import FlowPartition


def repeats_of() -> dict[int, int]:
    """By flow, of those whose copiers count them."""
    counted = FlowPartition.objects.filter(repeats__isnull=False).order_by()
    return dict(counted.values_list("flow").annotate(Sum("repeats")))


def with_repeats(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same for who reads the flows anyhow: `repeats`, null while nobody counts them."""
    mine = FlowPartition.objects.filter(flow=OuterRef("pk")).order_by().values("flow")
    return rows.annotate(repeats=Subquery(mine.annotate(sum=Sum("repeats")).values("sum")))
