"""What pages read of many flows in few queries: how far behind each is, and where it is worst."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Concat

from mirrors.models.clusters import Cluster
from mirrors.models.flows import Flow, FlowTopic
from mirrors.models.groups import GroupOffset

_COPIED = Q(topics__remote_topic__isnull=False) & ~Q(topics__state="skipped")


def flows_with_lag() -> QuerySet[Any]:
    """Flows with the totals of their copied topics.

    `offset_lag` is null while that of any copied topic is: a partial sum would promise too much.
    """
    behind = FlowTopic.objects.filter(flow=OuterRef("pk"), offset_lag__gt=0)
    worst = behind.order_by(F("time_lag_ms").desc(nulls_last=True), "-offset_lag")
    return Flow.objects.select_related("source", "target", "runner").annotate(
        label=Concat("source__alias", Value("->"), "target__alias"),
        copied=Count("topics", filter=_COPIED),
        left_out=Count("topics", filter=~_COPIED & Q(topics__isnull=False)),
        unknown_lags=Count("topics", filter=_COPIED & Q(topics__offset_lag__isnull=True)),
        offset_lag=Case(
            When(unknown_lags__gt=0, then=None),
            When(copied=0, left_out__gt=0, then=0),
            default=Sum("topics__offset_lag", filter=_COPIED),
            output_field=BigIntegerField(),
        ),
        time_lag_ms=Max("topics__time_lag_ms", filter=_COPIED),
        worst_topic=Subquery(worst.values("topic")[:1]),
    )


def groups_of(cluster: Cluster) -> QuerySet[Any]:
    """The consumer groups that flows know on a cluster, one row a group.

    On a source all that were seen there, on a target those that are there.
    """
    here = Q(flow__source=cluster) | Q(flow__target=cluster, target_offset__isnull=False)
    rows = GroupOffset.objects.filter(here).order_by().values("group")
    return rows.annotate(
        topics=Count("topic", distinct=True, filter=~Q(topic="")),
        places=Count("pk", filter=~Q(topic="")),
        flows=Count("flow", distinct=True),
        moved=Count("pk", filter=Q(sync_state__in=("in_sync", "moved"))),
        last_seen=Max("as_of"),
        flow=Min("flow_id"),
    )


def worst_topics(flows: Iterable[Flow], limit: int = 5) -> list[FlowTopic]:
    """The topics furthest behind, over all the given flows."""
    rows = FlowTopic.objects.filter(flow__in=list(flows), offset_lag__gt=0)
    rows = rows.select_related("flow__source", "flow__target")
    return list(rows.order_by(F("time_lag_ms").desc(nulls_last=True), "-offset_lag")[:limit])
