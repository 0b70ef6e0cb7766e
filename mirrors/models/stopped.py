"""Partitions that stopped alone, and the records that wait behind them.

Nothing is parked elsewhere, or skipped but by a person's decision: what a target refuses, or what a
source lost, stops its partition there, and whatever follows in it waits until a person decided or
the cause is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, Sum, When

from mirrors.models.flows import FlowPartition

STATES = ("faulted", "gap")


@dataclasses.dataclass(frozen=True)
class Stopped:
    """`waiting` is None while the end of one of them is not known: a part would promise less."""

    partitions: int = 0
    waiting: int | None = 0


def stopped_of(flows: Collection[int] | None = None) -> dict[int, Stopped]:
    """By flow, of those that have any; of all flows when none are named."""
    rows = FlowPartition.objects.filter(state__in=STATES).order_by()
    if flows is not None:
        rows = rows.filter(flow__in=flows)
    counts = rows.values_list("flow").annotate(
        partitions=Count("pk"),
        unknown=Count("pk", filter=Q(offset_lag=None)),
        waiting=Sum("offset_lag"),
    )
    return {
        flow: Stopped(partitions, None if unknown else waiting)
        for flow, partitions, unknown, waiting in counts
    }


def with_stopped(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same for a page that reads its flow anyhow: `stopped` (null for none) and `waiting`."""
    mine = FlowPartition.objects.filter(flow=OuterRef("pk"), state__in=STATES).order_by()
    known = Case(When(unknown=0, then=Sum("offset_lag")))
    count = mine.values("flow").annotate(count=Count("pk")).values("count")
    unknown = Count("pk", filter=Q(offset_lag=None))
    waiting = mine.values("flow").annotate(unknown=unknown).annotate(known=known).values("known")
    return rows.annotate(stopped=Subquery(count), waiting=Subquery(waiting))
