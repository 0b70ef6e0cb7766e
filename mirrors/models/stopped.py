"""Partitions that stopped alone, and the records that wait behind them.

Nothing is parked elsewhere, or skipped but by a person's decision: what a target refuses, or what a
source lost, stops its partition there, and whatever follows in it waits until a person decided or
the cause is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from mirrors.models.flows import FlowPartition

STATES = ("faulted", "gap")


@dataclasses.dataclass(frozen=True)
class Stopped:
    """`waiting` sums the records behind those partitions whose end is known; of `unknown` ones
    nobody knows how many wait."""

    partitions: int = 0
    waiting: int = 0
    unknown: int = 0


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
        flow: Stopped(partitions, waiting or 0, unknown)
        for flow, partitions, unknown, waiting in counts
    }


def with_stopped(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same for a page that reads its flow anyhow: `stopped` (null for none), `waiting`, and
    `waiting_unknown`, the number of those of which nobody knows how many records wait."""
    mine = FlowPartition.objects.filter(flow=OuterRef("pk"), state__in=STATES).order_by()
    by_flow = mine.values("flow")
    unknown = Count("pk", filter=Q(offset_lag=None))
    return rows.annotate(
        stopped=Subquery(by_flow.annotate(count=Count("pk")).values("count")),
        waiting=Subquery(by_flow.annotate(sum=Coalesce(Sum("offset_lag"), 0)).values("sum")),
        waiting_unknown=Subquery(by_flow.annotate(unknown=unknown).values("unknown")),
    )
